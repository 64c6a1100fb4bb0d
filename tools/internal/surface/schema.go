package surface

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const (
	product    = "signalbox."
	accessName = protoreflect.FullName("signalbox.options.v1.access")
	limitName  = protoreflect.FullName("signalbox.options.v1.limit_s")
	// maxLimit is the maximum time limit of a call, in seconds.
	maxLimit = 600
)

// schema contains the product's protos and the options that the generators read. It reads the options from the image,
// because tools never import the product.
type schema struct {
	files *protoregistry.Files
	types *dynamicpb.Types
}

// access contains the access options of one RPC.
type access struct {
	credential    string
	role          string
	peers         []string
	drawn         bool
	inMaintenance bool
	limit         int
}

func loadSchema(image []byte) (*schema, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(image, &set); err != nil {
		return nil, fmt.Errorf("parse image: %w", err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, fmt.Errorf("link image: %w", err)
	}
	s := &schema{files: files, types: dynamicpb.NewTypes(files)}
	if _, err := s.types.FindExtensionByName(accessName); err != nil {
		return nil, fmt.Errorf("find option %s: %w", accessName, err)
	}
	return s, nil
}

// services lists the product's gRPC services by name.
func (s *schema) services() []protoreflect.ServiceDescriptor {
	var all []protoreflect.ServiceDescriptor
	s.files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(fd.Package())+".", product) {
			for i := range fd.Services().Len() {
				all = append(all, fd.Services().Get(i))
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b protoreflect.ServiceDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	return all
}

// accessOf reads the access option of md and checks its consistency.
func (s *schema) accessOf(md protoreflect.MethodDescriptor) (access, error) {
	option, ok, err := s.Option(md, accessName)
	switch {
	case err != nil:
		return access{}, err
	case !ok:
		return access{}, fmt.Errorf("%s: option %s is missing", md.FullName(), accessName)
	}
	m := option.Message()
	a := access{credential: word(m, "credential"), role: word(m, "role")}
	a.drawn, a.inMaintenance = truth(m, "drawn_password"), truth(m, "in_maintenance")
	peers := m.Get(m.Descriptor().Fields().ByName("peers")).List()
	for i := range peers.Len() {
		a.peers = append(a.peers, peers.Get(i).String())
	}
	limit, ok, err := s.Option(md, limitName)
	if err != nil {
		return access{}, err
	}
	if ok {
		a.limit = int(limit.Int())
	}
	switch {
	case (a.credential == "") == (len(a.peers) == 0):
		return access{}, fmt.Errorf("%s: exactly one of credential and peers must be set", md.FullName())
	case (a.role != "") != (a.credential == "user"):
		return access{}, fmt.Errorf("%s: CREDENTIAL_USER requires a role; other credentials must not have a role", md.FullName())
	case (word(m, "need") != "") != (a.credential == "user"):
		return access{}, fmt.Errorf("%s: CREDENTIAL_USER requires a need; other credentials must not have a need", md.FullName())
	case len(a.peers) > 0 && (a.inMaintenance || a.limit != 0):
		return access{}, fmt.Errorf("%s: only RPCs of the gateway may set a limit or in_maintenance", md.FullName())
	case a.limit < 0 || a.limit > maxLimit:
		return access{}, fmt.Errorf("%s: a limit of %d s is not allowed; it must be 1 to %d", md.FullName(), a.limit, maxLimit)
	}
	return a, nil
}

// truth returns the boolean field of an option with the given name. It returns false if the image does not define the
// field.
func truth(m protoreflect.Message, name protoreflect.Name) bool {
	fd := m.Descriptor().Fields().ByName(name)
	return fd != nil && m.Get(fd).Bool()
}

// fullMethod returns the name of a call, such as signalbox.jobs.v1.JobService/GetJob.
func fullMethod(md protoreflect.MethodDescriptor) string {
	return string(md.Parent().FullName()) + "/" + string(md.Name())
}

// word returns an enum value in the API's form, lower case without prefix; "" if unspecified.
func word(m protoreflect.Message, name protoreflect.Name) string {
	fd := m.Descriptor().Fields().ByName(name)
	values := fd.Enum().Values()
	v := values.ByNumber(m.Get(fd).Enum())
	if v == nil || v.Number() == 0 {
		return ""
	}
	prefix := strings.TrimSuffix(string(values.Get(0).Name()), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
}

// rules returns the HTTP bindings of md: the main binding first, then the additional bindings.
func rules(md protoreflect.MethodDescriptor) []*annotations.HttpRule {
	rule, _ := proto.GetExtension(md.Options(), annotations.E_Http).(*annotations.HttpRule)
	if rule == nil {
		return nil
	}
	return append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...)
}

// methodOf finds an RPC by its full name, signalbox.jobs.v1.JobService.GetJob.
func (s *schema) methodOf(name string) (protoreflect.MethodDescriptor, error) {
	d, err := s.files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	md, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, errors.New("not an RPC"))
	}
	return md, nil
}

// ServiceOf returns the name of the service that owns a package: jobs for signalbox.jobs.v1.
func ServiceOf(d protoreflect.Descriptor) string {
	rest := strings.TrimPrefix(string(d.ParentFile().Package()), product)
	name, _, _ := strings.Cut(rest, ".")
	return name
}

// public reports whether the RPCs of d's package may have HTTP bindings: those of signalbox.<service>.v1 may, those of
// signalbox.<service>.peer.v1 may not.
func public(d protoreflect.Descriptor) bool {
	return strings.Count(string(d.ParentFile().Package()), ".") == 2
}
