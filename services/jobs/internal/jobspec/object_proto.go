package jobspec

import jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"

// ObjectToProto converts an object to the message that agents receive.
func ObjectToProto(o *Object) *jobsv1.ObjectRef {
	if o == nil {
		return nil
	}
	return &jobsv1.ObjectRef{Path: o.Path, Uri: o.URI, SizeBytes: o.Size, Sha256: o.SHA256, Unpack: o.Unpack}
}

// ObjectsToProto converts objects with ObjectToProto.
func ObjectsToProto(objects []Object) []*jobsv1.ObjectRef {
	refs := make([]*jobsv1.ObjectRef, len(objects))
	for i := range objects {
		refs[i] = ObjectToProto(&objects[i])
	}
	return refs
}

func objectFromProto(m *jobsv1.ObjectRef) *Object {
	if m == nil {
		return nil
	}
	return &Object{Path: m.GetPath(), URI: m.GetUri(), Size: m.GetSizeBytes(), SHA256: m.GetSha256(), Unpack: m.GetUnpack()}
}

func objectsFromProto(refs []*jobsv1.ObjectRef) []Object {
	objects := make([]Object, len(refs))
	for i, r := range refs {
		objects[i] = *objectFromProto(r)
	}
	return objects
}

// EnvironmentToProto converts an environment to the message that agents receive.
func EnvironmentToProto(e *Environment) *jobsv1.EnvironmentSpec {
	if e == nil {
		return nil
	}
	return &jobsv1.EnvironmentSpec{Requirements: e.Requirements, Digest: e.Digest, Sdk: e.SDK, Lock: e.Lock}
}

func environmentFromProto(m *jobsv1.EnvironmentSpec) *Environment {
	if m == nil {
		return nil
	}
	return &Environment{Requirements: m.GetRequirements(), Digest: m.GetDigest(), SDK: m.GetSdk(), Lock: m.GetLock()}
}
