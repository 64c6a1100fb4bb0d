// Command routes generates gen/route from a buf image and proto/http_routes.yaml: the one table of
// everything that the gateway answers, and the registration of every service that the table names.
//
// It refuses a schema that the edge could not serve safely: an RPC without the access option, a
// binding whose credential no HTTP request can carry, a path template the edge does not match, two
// bindings of one method and path, a field whose type has no form in the contract.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	image := flag.String("image", "", "buf image (a binary FileDescriptorSet with its imports)")
	extra := flag.String("http", "", "YAML file of the routes that no RPC annotation describes")
	out := flag.String("out", "", "folder to write table.go and register.go to")
	flag.Parse()
	if err := run(*image, *extra, *out); err != nil {
		fmt.Fprintln(os.Stderr, "routes:", err)
		os.Exit(1)
	}
}

func run(image, extra, out string) error {
	if image == "" || extra == "" || out == "" {
		return errors.New("-image, -http and -out are required")
	}
	data, err := os.ReadFile(image)
	if err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	list, err := os.ReadFile(extra)
	if err != nil {
		return fmt.Errorf("read HTTP routes: %w", err)
	}
	files, err := generate(data, list)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // source code, for all to read
		return fmt.Errorf("make output folder: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil { //nolint:gosec // source code, for all to read
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// generate answers the files of gen/route by name.
func generate(image, list []byte) (map[string][]byte, error) {
	s, err := loadSchema(image)
	if err != nil {
		return nil, err
	}
	routes, services, err := s.routes()
	if err != nil {
		return nil, err
	}
	others, err := s.listed(list)
	if err != nil {
		return nil, err
	}
	routes, err = arrange(append(routes, others...))
	if err != nil {
		return nil, err
	}
	table, err := renderTable(routes)
	if err != nil {
		return nil, err
	}
	register, err := renderRegister(services)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"table.go": table, "register.go": register}, nil
}
