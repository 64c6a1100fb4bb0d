package environment_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/environment"
)

func TestEnvironmentVersion_uploadAndValidation(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("math")
	data := tasks(2)
	splits := func(m *registryv1.EnvironmentManifest) { m.Taskset.Splits = map[string]int32{"train": 2, "test": 1} }
	first, status, err := d.register(e, "v1", of(data, 3, splits))
	require.NoError(t, err)
	require.Equal(t, []string{"", "uploading"}, []string{status, first.GetState()})
	require.Empty(t, d.queue.ids)
	require.Equal(t, http.StatusOK, d.upload(e, "taskset", data))
	again, status, err := d.register(e, "v1", of(data, 3, splits))
	require.NoError(t, err)
	require.Equal(t, []string{"200", "validating", first.GetId()}, []string{status, again.GetState(), again.GetId()})
	require.Len(t, d.queue.ids, 1)
	again, status, err = d.register(e, "v1", of(data, 3, splits))
	require.NoError(t, err)
	require.Equal(t, []string{"200", "validating"}, []string{status, again.GetState()})
	require.Len(t, d.queue.ids, 1, "a repeated request queues no second validation")
	d.clock.Advance(time.Minute)
	d.work()
	v := d.version(e, "v1")
	require.Equal(t, "ready", v.GetState())
	require.True(t, d.clock.Now().Equal(v.GetReadyAt().AsTime()))
	require.Nil(t, v.Reason)
	require.Equal(t, "env/team/math@v1", v.GetRef())
	require.True(t, proto.Equal(of(data, 3, splits), v.GetManifest()), "%v", v.GetManifest())
	ctx, _ := as(t, "usr_1", authn.ProjectViewer, "")
	got, err := d.GetEnvironment(ctx, &registryv1.GetEnvironmentRequest{EnvironmentId: e.GetId()})
	require.NoError(t, err)
	require.Equal(t, "v1", got.GetLatestVersion())

	other, _, err := d.register(e, "v2", of(data, 3, splits, func(m *registryv1.EnvironmentManifest) { m.Entry = "other" }))
	require.NoError(t, err)
	require.Equal(t, "validating", other.GetState(), "the bytes are already uploaded")
	require.NotEqual(t, v.GetDigest(), other.GetDigest())
}

func TestCreateEnvironmentVersion_sameContentReturnsExisting(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("math")
	require.Equal(t, http.StatusOK, d.upload(e, "taskset", tasks(2)))
	first, _, err := d.register(e, "v1", of(tasks(2), 3))
	require.NoError(t, err)
	d.work()
	again, status, err := d.registerAs(e, "usr_2", "", "v1", of(tasks(2), 3))
	require.NoError(t, err)
	require.Equal(t, []string{"200", first.GetId(), "ready"}, []string{status, again.GetId(), again.GetState()})
	_, _, err = d.register(e, "v1", of(tasks(2), 3, func(m *registryv1.EnvironmentManifest) { m.Python = ">=3.12" }))
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "environment_version_exists"), "%v", err)
	require.Equal(t, first.GetDigest(), d.version(e, "v1").GetDigest())
	_, status, err = d.registerAs(e, "usr_1", "k", "v1", of(tasks(2), 3))
	require.NoError(t, err)
	require.Equal(t, "200", status)
	_, status, err = d.registerAs(e, "usr_1", "k", "v1", of(tasks(2), 3))
	require.NoError(t, err)
	require.Equal(t, "200", status, "a repeat with the same idempotency key has the same status")
}

func TestCreateEnvironmentVersion_replacesAbandonedUpload(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("math")
	_, _, err := d.register(e, "v1", of("never", 1))
	require.NoError(t, err)
	_, _, err = d.registerAs(e, "usr_2", "", "v1", of("other", 1))
	require.True(t, fault.HasCode(err, "environment_version_exists"), "%v", err)
	mine, status, err := d.register(e, "v1", of("mended", 1))
	require.NoError(t, err)
	require.Empty(t, status, "the creator can replace the upload at once")
	d.clock.Advance(blob.MaxExpires)
	theirs, _, err := d.registerAs(e, "usr_2", "", "v1", of("other", 1))
	require.NoError(t, err, "other users can replace the upload once its URLs have expired")
	require.NotEqual(t, mine.GetId(), theirs.GetId())
}

func TestValidator_reasonDoesNotQuoteTasks(t *testing.T) {
	t.Parallel()
	d := open(t)
	for name, c := range map[string]struct {
		data   string
		count  int32
		splits map[string]int32
		reason string
	}{
		"too few":         {tasks(1), 3, nil, "the taskset has 2 tasks; the manifest states 3"},
		"too many":        {tasks(5), 3, nil, "the taskset has 6 tasks; the manifest states 3"},
		"not an object":   {tasks(1) + `"planted"` + "\n", 3, nil, "line 3 of the taskset is not a JSON object"},
		"not JSON":        {`{"planted": ` + "\n", 1, nil, "line 1 of the taskset is not a JSON object"},
		"split no string": {`{"split": ["planted"]}`, 1, nil, "line 1 of the taskset is not a JSON object"},
		"unknown split":   {`{"split": "planted"}`, 1, map[string]int32{"train": 1}, "split train has 0 tasks; the manifest states 1"},
		"wrong split":     {tasks(2), 3, map[string]int32{"train": 1, "test": 2}, "split test has 1 tasks; the manifest states 2"},
	} {
		e := d.make(strings.ReplaceAll(name, " ", "-"))
		require.Equal(t, http.StatusOK, d.upload(e, "taskset", c.data))
		_, _, err := d.register(e, "v1", of(c.data, c.count, func(m *registryv1.EnvironmentManifest) { m.Taskset.Splits = c.splits }))
		require.NoError(t, err, name)
		d.work()
		v := d.version(e, "v1")
		require.Equal(t, "invalid", v.GetState(), name)
		require.Contains(t, v.GetReason(), c.reason, name)
		require.NotContains(t, v.GetReason(), "planted", name)
		require.Nil(t, v.GetReadyAt())
		ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
		_, err = d.DeprecateEnvironmentVersion(ctx, &registryv1.DeprecateEnvironmentVersionRequest{EnvironmentId: e.GetId(), Version: "v1"})
		require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "environment_version_state"), "%v", err)
	}
	require.Zero(t, d.count(`event WHERE event::text LIKE '%planted%'`)+d.count(`audit WHERE audit::text LIKE '%planted%'`))
}

func TestValidator_infiniteTaskset(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("endless")
	require.Equal(t, http.StatusOK, d.upload(e, "taskset", "def draw(): ..."))
	_, _, err := d.register(e, "v1", of("def draw(): ...", 0, func(m *registryv1.EnvironmentManifest) { m.Taskset.Infinite = true }))
	require.NoError(t, err)
	d.work()
	require.Equal(t, "ready", d.version(e, "v1").GetState())
}

// packed returns a tar file with a one-byte file for each name.
func packed(t *testing.T, names ...string) string {
	t.Helper()
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for _, name := range names {
		require.NoError(t, out.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: 1}))
		_, err := out.Write([]byte("x"))
		require.NoError(t, err)
	}
	require.NoError(t, out.Close())
	return b.String()
}

func TestValidator_inspectsPackage(t *testing.T) {
	t.Parallel()
	d := open(t)
	for name, c := range map[string]struct{ state, reason, data string }{
		"good":      {"ready", "", packed(t, "math.py")},
		"outside":   {"invalid", "package: ../math.py is not an accepted path", packed(t, "../math.py")},
		"sensitive": {"invalid", "sensitive_file: keys/id_rsa may hold a secret", packed(t, "keys/id_rsa")},
		"not-a-tar": {"invalid", "package: the package is", "hello"},
	} {
		e := d.make(name)
		require.Equal(t, http.StatusOK, d.upload(e, "taskset", tasks(1)))
		require.Equal(t, http.StatusOK, d.upload(e, "package", c.data))
		with := func(in *versionRequest) {
			in.Package = &registryv1.EnvironmentPackage{Sha256: sum(c.data), SizeBytes: int64(len(c.data))}
		}
		_, _, err := d.register(e, "v0", of(tasks(1), 2), with, func(in *versionRequest) { in.Package.SizeBytes++ })
		require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "object_differs"), "%v", err)
		v, _, err := d.register(e, "v1", of(tasks(1), 2), with)
		require.NoError(t, err)
		require.Equal(t, sum(c.data), v.GetPackage().GetSha256())
		d.work()
		v = d.version(e, "v1")
		require.Equal(t, c.state, v.GetState(), "%s: %s", name, v.GetReason())
		require.Contains(t, v.GetReason(), c.reason)
	}
}

func TestCreateEnvironmentVersion_contradictoryManifest(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("math")
	for name, change := range map[string]func(*registryv1.EnvironmentManifest){
		"no tasks":            func(m *registryv1.EnvironmentManifest) { m.Taskset.Count = 0 },
		"infinite with count": func(m *registryv1.EnvironmentManifest) { m.Taskset.Infinite = true },
		"wrong sum of splits": func(m *registryv1.EnvironmentManifest) { m.Taskset.Splits = map[string]int32{"train": 2} },
		"duplicate reward": func(m *registryv1.EnvironmentManifest) {
			m.RewardComponents = append(m.GetRewardComponents(), m.GetRewardComponents()[0])
		},
		"one-sided range": func(m *registryv1.EnvironmentManifest) { m.RewardComponents[0].Range = []float64{1} },
		"empty range":     func(m *registryv1.EnvironmentManifest) { m.RewardComponents[0].Range = []float64{1, 1} },
	} {
		_, _, err := d.register(e, "v1", of("x", 1, change))
		require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "manifest"), "%s: %v", name, err)
	}
	require.Zero(t, d.count(`environment_version`))
}

func TestCreateEnvironmentVersion_concurrentCallsCreateOne(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("math")
	const n = 8
	ids, statuses, errs := make([]string, n), make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			v, status, err := d.registerAs(e, fmt.Sprint("usr_", i), "", "v1", of("x", 1))
			ids[i], statuses[i], errs[i] = v.GetId(), status, err
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	made := 0
	for i := range n {
		require.Equal(t, ids[0], ids[i])
		if statuses[i] == "" {
			made++
		}
	}
	require.Equal(t, 1, made)
}

func TestDeprecateEnvironmentVersion(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("math")
	require.Equal(t, http.StatusOK, d.upload(e, "taskset", tasks(1)))
	for _, version := range []string{"v1", "v2"} {
		_, _, err := d.register(e, version, of(tasks(1), 2, func(m *registryv1.EnvironmentManifest) { m.Entry = version }))
		require.NoError(t, err)
		d.clock.Advance(time.Minute)
		d.work()
	}
	ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
	for range 2 {
		v, err := d.DeprecateEnvironmentVersion(ctx, &registryv1.DeprecateEnvironmentVersionRequest{EnvironmentId: e.GetId(), Version: "v2"})
		require.NoError(t, err)
		require.Equal(t, "deprecated", v.GetState())
	}
	got, err := d.GetEnvironment(ctx, &registryv1.GetEnvironmentRequest{EnvironmentId: e.GetId()})
	require.NoError(t, err)
	require.Equal(t, "v1", got.GetLatestVersion())
	require.Equal(t, 1, d.count(`audit WHERE action = 'environment.version.deprecate'`), "a repeated call changes nothing")
	require.Equal(t, 1, d.count(`environment_version WHERE state = '`+string(environment.StateDeprecated)+`'`))
}

func TestValidator_missingTasksetMakesVersionInvalid(t *testing.T) {
	t.Parallel()
	d := open(t)
	e := d.make("math")
	_, _, err := d.register(e, "v1", of("x", 1))
	require.NoError(t, err)
	_, err = d.Pool.Exec(t.Context(), `UPDATE environment_version SET state = 'validating'`)
	require.NoError(t, err)
	d.queue.ids = []string{d.version(e, "v1").GetId()}
	d.work()
	require.Equal(t, "the taskset is missing from the object store", d.version(e, "v1").GetReason())
	_, _, err = d.register(e, "v1", of("x", 1))
	require.NoError(t, err)
	require.Equal(t, "invalid", d.version(e, "v1").GetState(), "an invalid version stays invalid")
}
