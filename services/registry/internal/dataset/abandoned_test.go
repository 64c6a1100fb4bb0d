package dataset_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// held requires that the given user cannot take the name of a version.
func (d *harness) held(user string, s *registryv1.Dataset, version string, files []*registryv1.ManifestFile) {
	d.t.Helper()
	_, err := d.begin(user, s, version, files)
	require.True(d.t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "dataset_version_exists"), "%v", err)
}

func TestAbandonedUpload_reservesNameUntilURLsExpire(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	left, err := d.begin("usr_1", s, "v1", of("a", "hello", "b", "never comes"))
	require.NoError(t, err)
	require.Less(t, d.put(left.GetUploads()[0], "hello"), 300)
	d.clock.Advance(blob.MaxExpires - time.Second)
	d.held("usr_2", s, "v1", of("a", "other"))
	d.clock.Advance(time.Second)
	taken, err := d.begin("usr_2", s, "v1", of("a", "other"))
	require.NoError(t, err)
	require.NotEqual(t, left.GetVersion().GetId(), taken.GetVersion().GetId())
	require.NotEqual(t, left.GetVersion().GetDigest(), taken.GetVersion().GetDigest())
	require.Equal(t, []any{int32(1), int64(len("other"))}, []any{taken.GetVersion().GetFiles(), taken.GetVersion().GetBytes()})
	require.True(t, d.clock.Now().Equal(taken.GetVersion().GetCreatedAt().AsTime()))
	d.held("usr_1", s, "v1", of("a", "hello", "b", "never comes"))
	require.Len(t, taken.GetUploads(), 1)
	require.Less(t, d.put(taken.GetUploads()[0], "other"), 300)
	ready, err := d.commit("usr_2", s, "v1")
	require.NoError(t, err)
	require.Equal(t, taken.GetVersion().GetDigest(), ready.GetDigest())
	require.Len(t, ready.GetManifest(), 1)
	require.Equal(t, []string{"created>", "version>uploading", "version>uploading", "version>ready"}, d.events(s))
	require.Equal(t, []string{"dataset.version.commit", "dataset.version.create", "dataset.version.create", "dataset.create"}, d.audited(s))
	d.clock.Advance(365 * 24 * time.Hour)
	d.held("usr_1", s, "v1", of("a", "third"))
}

func TestAbandonedUpload_renewalKeepsName(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	first, err := d.begin("usr_1", s, "v1", of("a", "hello"))
	require.NoError(t, err)
	d.clock.Advance(blob.MaxExpires - time.Minute)
	_, err = d.begin("usr_1", s, "v1", of("a", "hello"))
	require.NoError(t, err)
	d.clock.Advance(blob.MaxExpires - time.Minute)
	d.held("usr_2", s, "v1", of("a", "other"))
	d.clock.Advance(time.Minute)
	mended, err := d.begin("usr_1", s, "v1", of("a", "hello!"))
	require.NoError(t, err, "another manifest starts another upload")
	require.NotEqual(t, first.GetVersion().GetId(), mended.GetVersion().GetId())
}

func TestAbandonedUpload_concurrentTakeoverHasOneWinner(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	_, err := d.begin("usr_1", s, "v1", of("a", "hello"))
	require.NoError(t, err)
	d.clock.Advance(blob.MaxExpires)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		ctx, _ := as(t, "usr_other"+string(rune('a'+i)), "")
		wg.Go(func() {
			_, errs[i] = d.CreateDatasetVersion(ctx, &registryv1.CreateDatasetVersionRequest{
				DatasetId: s.GetId(), Version: "v1", Files: of("a", string(rune('a'+i))),
			})
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		require.True(t, fault.HasCode(err, "dataset_version_exists"), "%v", err)
	}
	require.Equal(t, 1, won)
}

func TestCreateDatasetVersion_creatorReplacesManifest(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	wrong, err := d.begin("usr_2", s, "v1", of("a", "hello"))
	require.NoError(t, err)
	right, err := d.begin("usr_2", s, "v1", of("a", "other"))
	require.NoError(t, err)
	require.NotEqual(t, wrong.GetVersion().GetId(), right.GetVersion().GetId())
	require.Less(t, d.put(right.GetUploads()[0], "other"), 300)
	ctx, _ := as(t, "usr_2", "")
	_, err = d.CommitDatasetVersion(ctx, &registryv1.CommitDatasetVersionRequest{
		DatasetId: s.GetId(), Version: "v1", Digest: wrong.GetVersion().GetDigest(),
	})
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "dataset_version_differs"), "%v", err)
	ready, err := d.CommitDatasetVersion(ctx, &registryv1.CommitDatasetVersionRequest{
		DatasetId: s.GetId(), Version: "v1", Digest: right.GetVersion().GetDigest(),
	})
	require.NoError(t, err)
	require.Equal(t, "ready", ready.GetState())
	d.held("usr_2", s, "v1", of("a", "hello"))
	require.Equal(t, []string{"created>", "version>uploading", "version>uploading", "version>ready"}, d.events(s))
}

func TestDeleteDatasetVersion(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	begun, err := d.begin("usr_2", s, "v1", of("a", "hello"))
	require.NoError(t, err)
	require.Less(t, d.put(begun.GetUploads()[0], "hello"), 300)
	ctx, _ := as(t, "usr_1", "")
	request := &registryv1.DeleteDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1"}
	_, err = d.DeleteDatasetVersion(ctx, request)
	require.NoError(t, err)
	_, err = d.DeleteDatasetVersion(ctx, request)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = d.commit("usr_2", s, "v1")
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	d.push(s, "v1", "other")
	_, err = d.DeleteDatasetVersion(ctx, request)
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "dataset_version_state"), "%v", err)
	kept, err := d.GetDatasetVersion(ctx, &registryv1.GetDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1"})
	require.NoError(t, err)
	require.Equal(t, "ready", kept.GetState())
	require.Equal(t, []string{"created>", "version>uploading", "version>deleted", "version>uploading", "version>ready"}, d.events(s))
	require.Contains(t, d.audited(s), "dataset.version.delete")
}

// The response to a request that deletes nothing states what another request has done with the version meanwhile.
func TestDeleteDatasetVersion_changedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change, text string
		kind         fault.Kind
	}{
		"replaced":  {`UPDATE dataset_version SET id = 'dsv_other'`, "another upload has replaced", fault.Conflict},
		"committed": {`UPDATE dataset_version SET state = 'ready', committed_at = now()`, "is committed", fault.Conflict},
		"deleted":   {`DELETE FROM dataset_version`, "no such", fault.Absent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newHarness(t)
			s := d.make("sums", "team")
			_, err := d.begin("usr_2", s, "v1", of("a", "hello"))
			require.NoError(t, err)
			tx, err := d.Pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			_, err = tx.Exec(t.Context(), c.change)
			require.NoError(t, err)
			ctx, _ := as(t, "usr_1", "")
			finished := make(chan error, 1)
			go func() {
				_, err := d.DeleteDatasetVersion(ctx, &registryv1.DeleteDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1"})
				finished <- err
			}()
			awaitWaiter(t, d.Pool)
			require.NoError(t, tx.Commit(t.Context()))
			err = <-finished
			require.True(t, fault.Is(err, c.kind), "%v", err)
			require.ErrorContains(t, err, c.text)
		})
	}
}

// storeWithHook is an object store that calls the function do at the first Stat.
type storeWithHook struct {
	blob.Store

	seen atomic.Bool
	do   func()
}

func (m *storeWithHook) Stat(ctx context.Context, key string) (blob.Info, error) {
	if m.seen.CompareAndSwap(false, true) {
		m.do()
	}
	return m.Store.Stat(ctx, key)
}

func TestCommitDatasetVersion_conflictsIfNameTakenMeanwhile(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]struct {
		do    func(d *harness, s *registryv1.Dataset) error
		state string
	}{
		"name taken": {func(d *harness, s *registryv1.Dataset) error {
			_, err := d.begin("usr_2", s, "v1", of("a", "other"))
			return err
		}, "uploading"},
		"name taken and committed": {func(d *harness, s *registryv1.Dataset) error {
			d.push(s, "v1", "other")
			return nil
		}, "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newHarness(t)
			s := d.make("sums", "team")
			made, err := d.begin("usr_2", s, "v1", of("a", "hello"))
			require.NoError(t, err)
			require.Less(t, d.put(made.GetUploads()[0], "hello"), 300)
			d.clock.Advance(blob.MaxExpires)
			d.Blobs = &storeWithHook{Store: d.blobs, do: func() {
				if err := after.do(d, s); err != nil {
					t.Error(err)
				}
			}}
			_, err = d.commit("usr_2", s, "v1")
			require.True(t, fault.HasCode(err, "dataset_version_exists"), "%v", err)
			ctx, _ := as(t, "usr_1", "")
			kept, err := d.GetDatasetVersion(ctx, &registryv1.GetDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1"})
			require.NoError(t, err)
			require.Equal(t, after.state, kept.GetState())
			require.EqualValues(t, len("other"), kept.GetBytes())
		})
	}
}
