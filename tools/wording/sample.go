package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// drawn is a comment or a message with its file and line.
type drawn struct {
	path string
	line int
	text string
}

func (d drawn) String() string {
	return fmt.Sprintf("%s:%d\n    %s", d.path, d.line, strings.ReplaceAll(strings.TrimSpace(d.text), "\n", "\n    "))
}

// sample selects n comments or docstrings of any source and m messages of the product at random, for a person to read.
// The same seed selects the same texts from the same tree.
func sample(ctx context.Context, root string, seed uint64, n, m int) (comments, messages []drawn, err error) {
	paths, err := files(ctx, root)
	if err != nil {
		return nil, nil, err
	}
	for _, path := range paths {
		raw, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, nil, err
		}
		switch filepath.Ext(path) {
		case ".go":
			inComments, inMessages := goTexts(path, raw)
			comments, messages = append(comments, inComments...), append(messages, inMessages...)
		case ".py":
			comments = append(comments, pythonTexts(path, raw)...)
		case ".sh", ".yaml", ".yml", ".service", ".timer", ".env":
			comments = append(comments, blocks(path, raw, "#")...)
		case ".sql":
			comments = append(comments, blocks(path, raw, "--")...)
		case ".proto", ".js", ".mjs":
			comments = append(comments, blocks(path, raw, "//")...)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0)) // the selection must be repeatable; it is not secret
	return draw(random, comments, n), draw(random, messages, m), nil
}

func draw(random *rand.Rand, from []drawn, n int) []drawn {
	random.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	return from[:min(n, len(from))]
}

// goTexts returns the comments of a Go file. Unless the file is a test, it also returns the strings that users see:
// arguments of calls that look like a sentence.
func goTexts(path string, raw []byte) (comments, messages []drawn) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, raw, parser.ParseComments)
	if err != nil {
		return nil, nil
	}
	for _, group := range file.Comments {
		if text := strings.TrimSpace(group.Text()); strings.Contains(text, " ") {
			comments = append(comments, drawn{path, set.Position(group.Pos()).Line, text})
		}
	}
	if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/") {
		return comments, nil
	}
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		for _, arg := range call.Args {
			lit, ok := arg.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			text, err := strconv.Unquote(lit.Value)
			if err == nil && message(text) && len(strings.Fields(text)) > 2 {
				messages = append(messages, drawn{path, set.Position(lit.Pos()).Line, text})
			}
		}
		return true
	})
	return comments, messages
}

// blocks returns the comments that are on lines of their own; consecutive lines form one comment.
func blocks(path string, raw []byte, mark string) []drawn {
	var out []drawn
	last := -1
	for i, line := range slices.Collect(strings.Lines(string(raw))) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), mark)
		switch {
		case !ok || strings.HasPrefix(text, "!") || !strings.Contains(text, " "):
		case last == i-1 && len(out) > 0:
			out[len(out)-1].text += "\n" + strings.TrimSpace(text)
			last = i
		default:
			out = append(out, drawn{path, i + 1, strings.TrimSpace(text)})
			last = i
		}
	}
	return out
}
