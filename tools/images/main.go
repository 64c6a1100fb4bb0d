// Command images packs the programs of the control plane into container images, one for each program, for amd64 and
// arm64. An image contains the program, root certificates, the users of the services and empty folders, and nothing
// else: no shell, no libraries, no package manager. The same programs and the same commit give the same images, byte by
// byte.
//
// For each program it writes OUT/PROGRAM.tar, an archive that `podman load` reads without a network, and
// OUT/PROGRAM-ARCH.spdx.json, the modules in the program as an SPDX document. The archive contains the documents, too.
// It prints a line for each image: its name, its platform, its compressed size and its digest. It exits with status 1
// if an image is larger than 60 MB.
//
//	images -programs DIR -out OUT -version VERSION -revision COMMIT -created TIME
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var r release
	programs := flag.String("programs", "", "folder with a folder for each architecture, which contains the static programs")
	out := flag.String("out", "", "folder of the archives")
	created := flag.String("created", "", "time of the commit, in the format of RFC 3339")
	flag.StringVar(&r.version, "version", "", "version of the images, and their tag")
	flag.StringVar(&r.revision, "revision", "", "commit of the programs")
	flag.StringVar(&r.repository, "repository", "localhost/signalbox", "beginning of the images' names")
	flag.Parse()
	if flag.NArg() > 0 || *programs == "" || *out == "" || r.version == "" || r.revision == "" {
		flag.Usage()
		os.Exit(2)
	}
	var err error
	if r.created, err = time.Parse(time.RFC3339, *created); err == nil {
		r.created = r.created.UTC()
		err = packAll(r, *programs, *out, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}
