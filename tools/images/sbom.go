package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// spdxType is the media type of an SPDX document.
const spdxType = "application/spdx+json"

// document is an SPDX 2.3 document.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Created       creation       `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID        string     `json:"SPDXID"`
	Name      string     `json:"name"`
	Version   string     `json:"versionInfo"`
	Location  string     `json:"downloadLocation"`
	Analyzed  bool       `json:"filesAnalyzed"`
	License   string     `json:"licenseDeclared"`
	Purpose   string     `json:"primaryPackagePurpose"`
	Checksums []checksum `json:"checksums,omitempty"`
	Refs      []external `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// sbom returns the SPDX document of a program: the program with its hash, the modules that it was linked from, and the
// standard library.
func sbom(r release, p program, arch string, raw []byte, info *buildinfo.BuildInfo) ([]byte, error) {
	sum := sha256.Sum256(raw)
	hash := hex.EncodeToString(sum[:])
	name := p.name + "-" + arch
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: "https://" + info.Main.Path + "/spdx/" + name + "-" + hash,
		Created:   creation{r.created.Format(time.RFC3339), []string{"Tool: signalbox-images"}},
		Packages: []spdxPackage{{
			ID: "SPDXRef-program", Name: p.name, Version: r.version, Location: "NOASSERTION", License: "Apache-2.0", Purpose: "APPLICATION",
			Checksums: []checksum{{"SHA256", hash}},
		}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-program"}},
	}
	d.add("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.add(m.Path, m.Version)
	}
	return json.MarshalIndent(d, "", "  ")
}

// add adds a module that the program contains.
func (d *document) add(path, version string) {
	id := "SPDXRef-module-" + strconv.Itoa(len(d.Packages))
	d.Packages = append(d.Packages, spdxPackage{
		ID: id, Name: path, Version: version, Location: "NOASSERTION", License: "NOASSERTION", Purpose: "LIBRARY",
		Refs: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
	})
	d.Relationships = append(d.Relationships, relationship{"SPDXRef-program", "CONTAINS", id})
}
