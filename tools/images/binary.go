package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
)

// read checks that a program runs in an image without libraries, and returns its build information.
func read(raw []byte, arch string) (*buildinfo.BuildInfo, error) {
	f, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; f.Machine != want {
		return nil, fmt.Errorf("the program is for %v, not for %v", f.Machine, want)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return nil, errors.New("the program needs a dynamic linker; build it with CGO_ENABLED=0")
	}
	info, err := buildinfo.Read(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read the program's build information: %w", err)
	}
	return info, nil
}
