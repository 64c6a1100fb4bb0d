package jobspec

import (
	"testing"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestFromProto_runtime(t *testing.T) {
	t.Parallel()
	const one, path = "set exactly one of node, requirements and image", "the lock is a file of the package; give its path"
	image := &jobsv1.Image{Ref: "ghcr.io/a"}
	for name, c := range map[string]struct {
		runtime *jobsv1.Runtime
		change  func(m *jobsv1.JobSpec)
		want    string // the canonical form
		refused string
	}{
		"none":                      {nil, nil, "", ""},
		"node":                      {&jobsv1.Runtime{Node: "cuda"}, nil, `"runtime":{"node":"cuda"}`, ""},
		"requirements":              {&jobsv1.Runtime{Requirements: "a/uv.lock"}, nil, `"runtime":{"requirements":"a/uv.lock"}`, ""},
		"image":                     {&jobsv1.Runtime{Image: image}, nil, `"runtime":{"image":{"ref":"ghcr.io/a"}}`, ""},
		"name of another form":      {&jobsv1.Runtime{Node: "a\x00b"}, nil, "", "the name of an interpreter has"},
		"nothing":                   {&jobsv1.Runtime{}, nil, "", one},
		"two":                       {&jobsv1.Runtime{Node: "cuda", Requirements: "uv.lock"}, nil, "", one},
		"all":                       {&jobsv1.Runtime{Node: "cuda", Requirements: "uv.lock", Image: image}, nil, "", one},
		"image twice":               {&jobsv1.Runtime{Image: image}, func(m *jobsv1.JobSpec) { m.Image = image }, "", "exclude each other"},
		"no package":                {&jobsv1.Runtime{Requirements: "uv.lock"}, func(m *jobsv1.JobSpec) { m.Source.Package = "" }, "", "set source.package"},
		"no package, interpreter":   {&jobsv1.Runtime{Node: "cuda"}, func(m *jobsv1.JobSpec) { m.Source.Package = "" }, `"runtime":{"node":"cuda"}`, ""},
		"absolute":                  {&jobsv1.Runtime{Requirements: "/etc/shadow"}, nil, "", path},
		"outside":                   {&jobsv1.Runtime{Requirements: "../uv.lock"}, nil, "", path},
		"outside, from a folder":    {&jobsv1.Runtime{Requirements: "a/../../uv.lock"}, nil, "", path},
		"the folder of the package": {&jobsv1.Runtime{Requirements: "."}, nil, "", path},
		"NUL":                       {&jobsv1.Runtime{Requirements: "a\x00b"}, nil, "", path},
	} {
		m := fullSpec()
		m.Image, m.Runtime = nil, c.runtime
		if c.change != nil {
			c.change(m)
		}
		spec, err := FromProto(m)
		if c.refused != "" {
			require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
			require.Contains(t, fault.From(err).Fields[0].Msg, c.refused, name)
			require.Equal(t, []any{"spec", "runtime"}, fault.From(err).Fields[0].Loc[:2], name)
			continue
		}
		require.NoError(t, err, name)
		form, _, err := spec.Canonical()
		require.NoError(t, err, name)
		if c.want == "" {
			require.NotContains(t, string(form), "runtime\":{", name)
		} else {
			require.Contains(t, string(form), c.want, name)
		}
	}
}
