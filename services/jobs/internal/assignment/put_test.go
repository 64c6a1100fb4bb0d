package assignment_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
)

func TestPutWork_concurrentFirstOrdersAreOneChange(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	var changes atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := b.peer().PutWork(t.Context(), orderOf("wrk_1", 1, running))
			if err != nil {
				t.Error(err)
			}
			if got.GetChanged() {
				changes.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, changes.Load(), "only the first order must count as a change")
	require.Equal(t, 1, b.count("work"))
}

func TestPutWork_newestGenerationWinsRace(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	var wg sync.WaitGroup
	for generation := range int64(8) {
		wg.Go(func() {
			_, err := b.peer().PutWork(t.Context(), orderOf("wrk_1", generation+1, running))
			if err != nil && !fault.HasCode(err, "work_generation") {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := b.get("wrk_1")
	require.EqualValues(t, 8, got.Generation, "the newest generation must win in any order of arrival")
	spec := &jobsv1.EngineSpec{}
	require.NoError(t, unmarshal(got.Spec, spec))
	require.EqualValues(t, 8, spec.GetRevisionNumber(), "the spec must belong to the generation")
}

func TestPutWork_orders(t *testing.T) {
	t.Parallel()
	other := func(r *jobspeerv1.PutWorkRequest) { r.Engine.Driver = "command" }
	for name, c := range map[string]struct {
		before  []*jobspeerv1.PutWorkRequest
		order   *jobspeerv1.PutWorkRequest
		changed bool
		code    string
		rows    int
	}{
		"gone, unknown work":        {nil, orderOf("wrk_1", 1, gone), false, "", 0},
		"stopped, unknown work":     {nil, orderOf("wrk_1", 1, stopped), false, "", 0},
		"first":                     {nil, orderOf("wrk_1", 1, running), true, "", 1},
		"again":                     {[]*jobspeerv1.PutWorkRequest{orderOf("wrk_1", 1, running)}, orderOf("wrk_1", 1, running), false, "", 1},
		"older":                     {[]*jobspeerv1.PutWorkRequest{orderOf("wrk_1", 2, running)}, orderOf("wrk_1", 1, gone), false, "work_generation", 1},
		"same generation, new spec": {[]*jobspeerv1.PutWorkRequest{orderOf("wrk_1", 1, running)}, orderOf("wrk_1", 1, running, other), false, "work_generation", 1},
		"new generation, new spec":  {[]*jobspeerv1.PutWorkRequest{orderOf("wrk_1", 1, running)}, orderOf("wrk_1", 2, running, other), true, "", 1},
		"unspecified desired state": {nil, orderOf("wrk_1", 1, jobsv1.Desired_DESIRED_UNSPECIFIED), false, "invalid", 0},
		"attempt's ID":              {nil, orderOf("wrk_attempt", 2, gone), false, "work_kind", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t)
			b.attempt("wrk_attempt")
			for _, o := range c.before {
				_, err := b.peer().PutWork(t.Context(), o)
				require.NoError(t, err)
			}
			got, err := b.peer().PutWork(t.Context(), c.order)
			switch c.code {
			case "":
				require.NoError(t, err)
			case "invalid":
				require.True(t, fault.Is(err, fault.Invalid), "%v", err)
			default:
				require.True(t, fault.HasCode(err, c.code), "%v", err)
			}
			require.Equal(t, c.changed, got.GetChanged())
			require.Equal(t, c.rows, b.count(`work WHERE kind = 'engine'`))
			require.Equal(t, assignment.WantRunning, b.get("wrk_attempt").Desired, "the registry must not change attempts")
		})
	}
}

// An engine with GPUs takes GPUs and no slot. An engine without GPUs takes one slot.
func TestPutWork_engineTakesGPUsOrSlot(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	_, err := b.peer().PutWork(t.Context(), orderOf("wrk_gpu", 1, running, func(r *jobspeerv1.PutWorkRequest) {
		r.Engine.Limits = &jobsv1.ResourceLimits{Gpus: 2}
	}))
	require.NoError(t, err)
	_, err = b.peer().PutWork(t.Context(), orderOf("wrk_cpu", 1, running, func(r *jobspeerv1.PutWorkRequest) { r.Engine = nil }))
	require.NoError(t, err)
	gpu, cpu := b.get("wrk_gpu"), b.get("wrk_cpu")
	require.Equal(t, [2]int{2, 0}, [2]int{gpu.GPUs, gpu.Slots})
	require.Equal(t, [2]int{0, 1}, [2]int{cpu.GPUs, cpu.Slots})
	require.Equal(t, "llamacpp", gpu.Driver)
	require.Equal(t, [2]string{"usr_1", "prj_1"}, [2]string{gpu.OwnerID, gpu.ProjectID})
	require.Equal(t, assignment.WaitStart, gpu.Waiting)
	require.Equal(t, 1, gpu.NNodes)
}

// The team is looked up with the first order of an engine that holds GPUs, and not again.
func TestPutWork_teamOfProject(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	put := func(id string, generation int64, gpus int32) error {
		_, err := b.peer().PutWork(t.Context(), orderOf(id, generation, running, func(r *jobspeerv1.PutWorkRequest) {
			r.Engine.Limits = &jobsv1.ResourceLimits{Gpus: gpus}
		}))
		return err
	}
	require.NoError(t, put("wrk_cpu", 1, 0))
	require.Nil(t, b.get("wrk_cpu").TeamID)
	require.Zero(t, b.projects.calls)
	b.projects.err = fault.New(fault.Unavailable, "", "auth is away")
	require.True(t, fault.Is(put("wrk_1", 1, 2), fault.Unavailable), "an engine must not be stored before its team is known")
	require.Zero(t, b.count(`work WHERE id = 'wrk_1'`))
	b.projects.err, b.projects.team, b.projects.calls = nil, "team_1", 0
	for generation := range int64(3) {
		require.NoError(t, put("wrk_1", 1+generation, 2))
		require.Equal(t, "team_1", b.get("wrk_1").Team())
	}
	require.Equal(t, 1, b.projects.calls)

	b.exec(`UPDATE work SET team_id = NULL, node_id = 'nod_1' WHERE id = 'wrk_1'`) // an engine that an earlier version placed
	require.NoError(t, put("wrk_1", 3, 2))
	require.Equal(t, "team_1", b.get("wrk_1").Team())
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_1' AND node_id = 'nod_1'`), "repeating the order must not move the engine")
}

// The observed state belongs to one execution.
func TestPutWork_newGenerationClearsObservedState(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	_, err := b.peer().PutWork(t.Context(), orderOf("wrk_1", 1, running))
	require.NoError(t, err)
	sealed, err := b.works.Keys.Seal([]byte("hush"), "work.engine_key:wrk_1")
	require.NoError(t, err)
	b.exec(`UPDATE work SET node_id = 'nod_1', waiting = '', fence = 3, phase = 'exited', exit_code = 1, exit_message = 'broke',
		running_at = now(), exited_at = now(), engine = ''::bytea, engine_key = $1`, sealed)
	require.Equal(t, "hush", b.get("wrk_1").EngineKey.Reveal())
	_, err = b.peer().PutWork(t.Context(), orderOf("wrk_1", 2, running))
	require.NoError(t, err)
	got := b.get("wrk_1")
	require.Equal(t, assignment.Observed{Key: assignment.Key{ID: "wrk_1", Generation: 2, Fence: 3}}, got.Observed)
	require.Equal(t, "nod_1", got.NodeID, "the engine must keep its node")
	require.Equal(t, 1, b.count(`work WHERE engine_key IS NULL AND engine IS NULL`))
}

// withModel adds one model in the object store and one outside it.
func withModel(r *jobspeerv1.PutWorkRequest) {
	r.Engine.Model = []*jobsv1.ObjectRef{{Uri: "blob://runs/m.gguf"}, {Uri: "https://elsewhere.example/m"}}
}
