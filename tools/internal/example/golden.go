// Package example chooses examples of requests and responses for the OpenAPI document. They come from the golden tests
// (test/contract/golden), which hold what the server returns. What differs between runs has a constant value of the
// same format instead. The same goldens and the same document give the same examples.
package example

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// exchange is a request of a golden and the expected response.
type exchange struct {
	method, target string
	request        message
	response       message
	status         int
	// marked is true if the golden selects the exchange as the example.
	marked bool
}

type message struct{ media, body string }

// Goldens are the golden tests, each with its exchanges in their order.
type Goldens [][]exchange

// Load reads all goldens of a folder, ordered by path.
func Load(dir string) (Goldens, error) {
	var all Goldens
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".txtar" {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // a file of the source tree
		if err != nil {
			return fmt.Errorf("read golden: %w", err)
		}
		one, err := parse(string(text))
		if err != nil {
			return fmt.Errorf("golden %s: %w", path, err)
		}
		all = append(all, one)
		return nil
	})
	return all, err
}

// parse reads the exchanges of a golden. test/contract/exchange describes the format.
func parse(text string) ([]exchange, error) {
	var all []exchange
	section := regexp.MustCompile(`(?m)^-- (request[a-z ]*|response) --\n`)
	marks := section.FindAllStringSubmatchIndex(text, -1)
	for i, at := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		words, content := strings.Fields(text[at[2]:at[3]]), text[at[1]:end]
		line, rest, _ := strings.Cut(content, "\n")
		if words[0] == "request" {
			method, target, _ := strings.Cut(strings.TrimSpace(line), " ")
			all = append(all, exchange{method: method, target: target, request: parts(rest), marked: slices.Contains(words, "example")})
			continue
		}
		status, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || len(all) == 0 {
			return nil, fmt.Errorf("response %d has no valid status or no request", i)
		}
		all[len(all)-1].status, all[len(all)-1].response = status, parts(rest)
	}
	return all, nil
}

// parts splits a message into its media type and its body.
func parts(text string) message {
	var m message
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if line == "" {
			m.body = strings.TrimRight(text, "\n")
			break
		}
		name, value, _ := strings.Cut(line, ":")
		if strings.EqualFold(name, "Content-Type") {
			m.media, _, _ = strings.Cut(strings.TrimSpace(value), ";")
		}
	}
	return m
}
