package manifest

import registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"

// ToProto converts files for the API.
func ToProto(files []File) (out []*registryv1.ManifestFile) {
	for _, f := range files {
		out = append(out, &registryv1.ManifestFile{Path: f.Path, SizeBytes: f.Size, Sha256: f.SHA256})
	}
	return out
}

// FromProto converts the files of a request.
func FromProto(files []*registryv1.ManifestFile) []File {
	out := make([]File, 0, len(files))
	for _, f := range files {
		out = append(out, File{Path: f.GetPath(), Size: f.GetSizeBytes(), SHA256: f.GetSha256()})
	}
	return out
}
