// Command wording checks that comments, docstrings, messages, documents and test names are in plain English, by the
// word list of docs/contributing/go-style.md. It prints each finding as file:line with better words, and exits with
// status 1 if there is any. With -sample it prints random comments and messages instead, for a person to read.
//
//	wording [-allow FILE] ROOT
//	wording -sample SEED ROOT
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	allow := flag.String("allow", "wording/allow.txt", "file of exceptions, one `PATH: WORD` for each line")
	seed := flag.Uint64("sample", 0, "print 100 comments and 60 messages that this seed selects")
	flag.Parse()
	root := cmp.Or(flag.Arg(0), "..")
	if *seed != 0 {
		comments, messages, err := sample(context.Background(), root, *seed, 100, 60)
		exitOn(err)
		for _, d := range append(comments, messages...) {
			fmt.Println(d)
		}
		return
	}
	findings, err := check(context.Background(), root, *allow)
	exitOn(err)
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
	fmt.Println("wording: 0 findings in", filepath.Clean(root))
}
