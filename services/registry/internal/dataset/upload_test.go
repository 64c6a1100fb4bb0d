package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/blob"
	folder "github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
)

func TestCreateDatasetVersion_repeatRenewsExpiredUpload(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	made, err := d.begin("usr_1", s, "v1", of("a", "hello"))
	require.NoError(t, err)
	target := made.GetUploads()[0]
	require.True(t, d.clock.Now().Add(blob.MaxExpires).Equal(target.GetExpiresAt().AsTime()))
	d.clock.Advance(blob.MaxExpires + time.Second)
	require.Equal(t, http.StatusForbidden, d.put(target, "hello"), "the URL has expired")
	_, err = d.commit("usr_1", s, "v1")
	require.True(t, fault.HasCode(err, "object_missing") && fault.Is(err, fault.Refused), "%v", err)
	d.clock.Advance(30 * 24 * time.Hour)
	again, err := d.begin("usr_1", s, "v1", of("a", "hello"))
	require.NoError(t, err)
	require.True(t, proto.Equal(made.GetVersion(), again.GetVersion()), "the version is the same, with its first creation time")
	require.Less(t, d.put(again.GetUploads()[0], "hello"), 300)
	done, err := d.commit("usr_1", s, "v1")
	require.NoError(t, err)
	require.True(t, d.clock.Now().Equal(done.GetCommittedAt().AsTime()))
}

func TestUploadURL_acceptsOnlyDeclaredBytes(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	made, err := d.begin("usr_1", s, "v1", of("a", "hello", "b", "world"))
	require.NoError(t, err)
	a, b := made.GetUploads()[0], made.GetUploads()[1]
	for name, status := range map[string]int{
		"other bytes": d.put(a, "hellO"),
		"more bytes":  d.put(a, "hello!"),
		"fewer bytes": d.put(a, "hell"),
		"bytes of b":  d.put(a, "world"),
		"key of b":    d.put(&registryv1.UploadTarget{Method: a.GetMethod(), Url: strings.Replace(a.GetUrl(), sum("hello"), sum("world"), 1), Headers: a.GetHeaders()}, "world"),
	} {
		require.GreaterOrEqual(t, status, 400, name)
	}
	_, err = d.commit("usr_1", s, "v1")
	require.True(t, fault.HasCode(err, "object_missing"), "no bytes were stored: %v", err)
	require.Less(t, d.put(a, "hello"), 300)
	_, err = d.commit("usr_1", s, "v1")
	require.ErrorContains(t, err, "file b has not been uploaded")
	require.Less(t, d.put(b, "world"), 300)
	_, err = d.commit("usr_1", s, "v1")
	require.NoError(t, err)
}

func TestCommitDatasetVersion_contradictoryManifest(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	files := of("a", "hello", "b", "hello")
	files[1].SizeBytes = 6
	made, err := d.begin("usr_1", s, "v1", files)
	require.NoError(t, err)
	require.Len(t, made.GetUploads(), 1)
	require.Less(t, d.put(made.GetUploads()[0], "hello"), 300)
	_, err = d.commit("usr_1", s, "v1")
	require.True(t, fault.HasCode(err, "object_differs") && fault.Is(err, fault.Refused), "%v", err)
	require.ErrorContains(t, err, "file b has 5 bytes")
}

func TestCreateDatasetVersion_sizeLimit(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	sized := func(sizes ...int64) []*registryv1.ManifestFile {
		var out []*registryv1.ManifestFile
		for i, n := range sizes {
			out = append(out, &registryv1.ManifestFile{Path: fmt.Sprint(i), SizeBytes: n, Sha256: sum(fmt.Sprint(i))})
		}
		return out
	}
	for name, c := range map[string]struct {
		sizes []int64
		good  bool
	}{
		"one under": {[]int64{limit - 1}, true}, "at": {[]int64{limit}, true}, "one over": {[]int64{limit + 1}, false},
		"each at": {[]int64{limit, limit}, true}, "second over": {[]int64{7, limit + 1}, false}, "empty": {[]int64{0, 0}, true},
		"past an int64": {[]int64{1<<63 - 1, 1<<63 - 1}, false},
	} {
		_, err := d.begin("usr_1", s, strings.ReplaceAll(name, " ", "-"), sized(c.sizes...))
		if c.good {
			require.NoError(t, err, name)
			continue
		}
		require.True(t, fault.Is(err, fault.TooLarge) && fault.HasCode(err, "upload_too_large"), "%s: %v", name, err)
		require.ErrorContains(t, err, "1 MiB")
	}
}

func TestDatasetVersion_emptyFile(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	v := d.push(s, "v1", "")
	require.Equal(t, []any{int32(1), int64(0), "ready"}, []any{v.GetFiles(), v.GetBytes(), v.GetState()})
}

func TestDatasetVersion_readyIsImmutable(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	v := d.push(s, "v1", "hello")
	d.clock.Advance(time.Hour)
	for name, files := range map[string][]*registryv1.ManifestFile{
		"same files": of("a", "hello"), "other files": of("b", "world"), "invalid path": of("../a", "x"),
		"too large": {{Path: "a", SizeBytes: limit + 1, Sha256: sum("x")}},
	} {
		_, err := d.begin("usr_1", s, "v1", files)
		require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "dataset_version_exists"), "%s: %v", name, err)
		require.Equal(t, "version v1 of dataset sums already exists", fault.From(err).Text())
	}
	again, err := d.commit("usr_2", s, "v1")
	require.NoError(t, err)
	require.True(t, proto.Equal(v, again), "a repeated commit changes nothing")
	require.NoError(t, d.blobs.Delete(t.Context(), dataset.Key("prj_team", sum("hello"))))
	again, err = d.commit("usr_1", s, "v1")
	require.NoError(t, err, "a repeated commit does not check the bytes")
	require.True(t, proto.Equal(v, again))
}

func TestCreateDatasetVersion_reusesBytesWithinProjectOnly(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	first, second, foreign := d.make("one", "team"), d.make("two", "team"), d.make("one", "other")
	d.push(first, "v1", "hello")
	made, err := d.begin("usr_1", second, "v1", of("x", "hello", "y", "new"))
	require.NoError(t, err)
	require.Len(t, made.GetUploads(), 1, "only bytes that the project lacks are requested")
	require.Equal(t, "y", made.GetUploads()[0].GetPath())
	made, err = d.begin("usr_1", foreign, "v1", of("x", "hello"))
	require.NoError(t, err)
	require.Len(t, made.GetUploads(), 1, "other projects do not see that the bytes exist")
	_, err = d.commit("usr_1", foreign, "v1")
	require.True(t, fault.HasCode(err, "object_missing"), "%v", err)
}

func TestCommitDatasetVersion_concurrentCallsCommitOnce(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	made, err := d.begin("usr_1", s, "v1", of("a", "hello"))
	require.NoError(t, err)
	require.Less(t, d.put(made.GetUploads()[0], "hello"), 300)
	versions := make([]*registryv1.DatasetVersion, 6)
	errs := make([]error, len(versions))
	var wg sync.WaitGroup
	for i := range versions {
		ctx, _ := as(t, "usr_1", "")
		wg.Go(func() {
			versions[i], errs[i] = d.CommitDatasetVersion(ctx, &registryv1.CommitDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1"})
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, v := range versions {
		require.True(t, proto.Equal(versions[0], v))
	}
	require.Equal(t, []string{"created>", "version>uploading", "version>ready"}, d.events(s))
	require.Equal(t, []string{"dataset.version.commit", "dataset.version.create", "dataset.create"}, d.audited(s))
}

// events lists the events of a dataset, oldest first.
func (d *harness) events(s *registryv1.Dataset) (out []string) {
	d.t.Helper()
	found, err := event.List(d.t.Context(), d.Pool, dataset.SubjectKind, s.GetId(), request.Page{Limit: 50})
	require.NoError(d.t, err)
	for _, e := range found {
		out = append(out, e.Type+">"+e.To)
	}
	return out
}

// audited lists the audit actions on a dataset, newest first, and requires that the audit log contains no action on
// another target.
func (d *harness) audited(s *registryv1.Dataset) (out []string) {
	d.t.Helper()
	found, err := audit.List(d.t.Context(), d.Pool, audit.Filter{}, request.Page{Limit: 50})
	require.NoError(d.t, err)
	for _, r := range found {
		require.Equal(d.t, s.GetId(), r.TargetID)
		out = append(out, r.Action)
	}
	return out
}

func TestCreateDatasetVersion_concurrentCreatorsConflict(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	for n := range 6 {
		version := fmt.Sprintf("v%d", n)
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, user := range []string{"usr_1", "usr_2"} {
			ctx, _ := as(t, user, "")
			wg.Go(func() {
				_, errs[i] = d.CreateDatasetVersion(ctx, &registryv1.CreateDatasetVersionRequest{DatasetId: s.GetId(), Version: version, Files: of("a", "hello")})
			})
		}
		wg.Wait()
		if errs[0] == nil {
			errs[0], errs[1] = errs[1], errs[0]
		}
		require.NoError(t, errs[1])
		require.True(t, fault.HasCode(errs[0], "dataset_version_exists"), "%v", errs[0])
	}
}

func TestCreateDatasetVersion_idempotencyKey(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	create := func(key, version string) (*registryv1.CreateDatasetVersionResponse, error) {
		ctx, _ := as(t, "usr_1", key)
		return d.CreateDatasetVersion(ctx, &registryv1.CreateDatasetVersionRequest{DatasetId: s.GetId(), Version: version, Files: of("a", "hello")})
	}
	first, err := create("k", "v1")
	require.NoError(t, err)
	again, err := create("k", "v1")
	require.NoError(t, err)
	require.True(t, proto.Equal(first.GetVersion(), again.GetVersion()))
	require.Len(t, again.GetUploads(), 1)
	_, err = create("k", "v2")
	require.True(t, fault.HasCode(err, "idempotency_key") && fault.Is(err, fault.Conflict), "%v", err)
	require.Equal(t, []string{"created>", "version>uploading"}, d.events(s), "the repeat adds no event")
	require.Less(t, d.put(again.GetUploads()[0], "hello"), 300)
	_, err = d.commit("usr_1", s, "v1")
	require.NoError(t, err)
	after, err := create("k", "v1")
	require.NoError(t, err)
	require.True(t, proto.Equal(first.GetVersion(), after.GetVersion()), "the response is that of the first request")
	require.Empty(t, after.GetUploads(), "no object is missing any more")
}

func TestGetDataset_latestVersionIsLastCommitted(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	ctx, _ := as(t, "usr_1", "")
	latest := func() string {
		got, err := d.GetDataset(ctx, &registryv1.GetDatasetRequest{DatasetId: s.GetId()})
		require.NoError(t, err)
		return got.GetLatestVersion()
	}
	early, err := d.begin("usr_1", s, "early", of("a", "early"))
	require.NoError(t, err)
	require.Empty(t, latest(), "an uploading version is not the latest")
	d.push(s, "late", "late")
	require.Equal(t, "late", latest())
	require.Less(t, d.put(early.GetUploads()[0], "early"), 300)
	_, err = d.commit("usr_1", s, "early")
	require.NoError(t, err)
	require.Equal(t, "early", latest())
}

func TestDatasetVersion_objectStoreFailureIsNotMissingObject(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	made, err := d.begin("usr_1", s, "v1", of("a", "hello"))
	require.NoError(t, err)
	require.Less(t, d.put(made.GetUploads()[0], "hello"), 300)
	d.Blobs = unavailableStore{d.blobs}
	_, err = d.commit("usr_1", s, "v1")
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	_, err = d.begin("usr_1", s, "v2", of("a", "hello"))
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	d.Blobs = d.blobs
	_, err = d.commit("usr_1", s, "v1")
	require.NoError(t, err)
}

// A response has room for 3,000 URLs. A client with more files repeats the request until the response contains no URLs.
func TestCreateDatasetVersion_moreFilesThanURLs(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	const most, count = 3000, 3005
	var pairs []string
	for i := range count {
		pairs = append(pairs, fmt.Sprintf("part-%05d", i), fmt.Sprint("text ", i))
	}
	var rounds []int
	counted := &countedStore{Store: d.blobs}
	d.Blobs = counted
	for {
		counted.looked.Store(0)
		made, err := d.begin("usr_1", s, "v1", of(pairs...))
		require.NoError(t, err)
		require.EqualValues(t, count, made.GetVersion().GetFiles(), "each response describes the whole version")
		if len(made.GetUploads()) == 0 {
			break
		}
		if rounds = append(rounds, len(made.GetUploads())); len(rounds) == 1 {
			require.EqualValues(t, most, counted.looked.Load(), "objects without a URL are not looked up")
		}
		var group errgroup.Group
		group.SetLimit(16)
		for _, u := range made.GetUploads() {
			group.Go(func() error {
				text := "text " + strconv.Itoa(number(u.GetPath()))
				key := strings.TrimPrefix(strings.Split(u.GetUrl(), "?")[0], d.web.URL+folder.Prefix)
				return d.blobs.Put(t.Context(), key, strings.NewReader(text), int64(len(text)), sum(text))
			})
		}
		require.NoError(t, group.Wait())
	}
	require.Equal(t, []int{most, count - most}, rounds)
	done, err := d.commit("usr_1", s, "v1")
	require.NoError(t, err)
	require.Equal(t, "ready", done.GetState())
}

// The uploads of files with long paths need more space than a message has, so a response has fewer of them.
func TestCreateDatasetVersion_longPaths(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	const count = 3000
	folder := strings.Repeat("0123456789/", 80)
	var pairs []string
	for i := range count {
		pairs = append(pairs, fmt.Sprintf("%spart-%05d", folder, i), fmt.Sprint("text ", i))
	}
	made, err := d.begin("usr_1", s, "v1", of(pairs...))
	require.NoError(t, err)
	require.Less(t, proto.Size(made), rpc.MaxMessage)
	require.NotEmpty(t, made.GetUploads())
	require.Greater(t, proto.Size(made), rpc.MaxMessage*9/10, "a client must not need more requests than necessary")
	require.EqualValues(t, count, made.GetVersion().GetFiles())
}

// countedStore counts the lookups of objects.
type countedStore struct {
	blob.Store

	looked atomic.Int32
}

func (c *countedStore) Stat(ctx context.Context, key string) (blob.Info, error) {
	c.looked.Add(1)
	return c.Store.Stat(ctx, key)
}

// number returns the number in the name of a part.
func number(path string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(path, "part-"))
	return n
}
