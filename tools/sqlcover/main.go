// Command sqlcover checks that every SQL statement in the source ran in a test. It compares the string literals of the
// Go files with the statements that test/pgtest collected in the folder RAN. It prints each statement that did not run
// as file:line, and each exception that is not needed. If it prints any, it exits with status 1. With -list it prints the
// statements in the source as JSON, one on each line.
//
//	sqlcover [-allow FILE] ROOT RAN
//	sqlcover -list ROOT
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	allow := flag.String("allow", "sqlcover/allow.txt", "`file` of exceptions, one per line: PATH: BEGINNING OF THE STATEMENT # reason")
	list := flag.Bool("list", false, "print the statements in the source below ROOT")
	flag.Parse()
	if *list && flag.NArg() == 1 {
		if err := printStatements(os.Stdout, flag.Arg(0)); err != nil {
			fmt.Fprintln(os.Stderr, "sqlcover:", err)
			os.Exit(2)
		}
		return
	}
	if flag.NArg() != 2 || *list {
		flag.Usage()
		os.Exit(2)
	}
	all, findings, err := check(flag.Arg(0), flag.Arg(1), *allow)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sqlcover:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		fmt.Fprintf(os.Stderr, "sqlcover: %d findings for %d statements; write a test that runs each statement, and remove exceptions that are not needed\n",
			len(findings), all)
		os.Exit(1)
	}
	fmt.Println("sqlcover:", all, "statements, and each ran in a test")
}
