package main

import (
	"encoding/json"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	optionsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/options/v1"
)

// init sets the access options that are in the file named by WIDEN, before a server reads them. A test
// (matrix_widen_test.go) builds the product with this file as an overlay. No program of `make build` contains it. The
// shims of works, which the server starts with an empty environment, change nothing.
func init() {
	file, set := os.LookupEnv("WIDEN")
	if !set {
		return
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	changed := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &changed); err != nil {
		panic(err)
	}
	for name, option := range changed {
		access := &optionsv1.Access{}
		if err := protojson.Unmarshal(option, access); err != nil {
			panic(err)
		}
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.Replace(name, "/", ".", 1)))
		if err != nil {
			panic(err)
		}
		proto.SetExtension(found.Options(), optionsv1.E_Access, access)
	}
}
