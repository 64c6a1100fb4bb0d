// Command program is a small static program for tests of images. It uses a module besides the standard library.
package main

import "golang.org/x/mod/semver"

func main() { println(semver.IsValid("v1.0.0")) }
