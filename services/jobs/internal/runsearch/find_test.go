package runsearch

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// find returns kind, last character of the id, and score of each result.
func (h *harness) findAll(ctx context.Context, req *searchv1.SearchRequest) (found []string) {
	h.Helper()
	resp, err := (&FindServer{Pool: h.pool}).Search(ctx, req)
	require.NoError(h, err)
	for _, r := range resp.GetResults() {
		require.Nil(h, r.Snippet)
		found = append(found, fmt.Sprintf("%s %s %.2f", r.GetKind(), r.GetId()[len(r.GetId())-1:], r.GetScore()))
	}
	return found
}

func (h *harness) name(n int, name string) {
	h.Helper()
	h.exec(`UPDATE run SET name = $2 WHERE id = $1`, runID(n), name)
}

func TestFindServer_Search(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.name(1, "Qwen SFT 模型训练")
	h.name(2, "qwen sft")
	h.name(3, "my QWEN sft")
	h.name(4, "sft for qwen")
	carol := user(t.Context(), "carol", "prj_1", "prj_2")
	for q, want := range map[string][]string{
		"qwen sft":     {"run 2 0.95", "run 1 0.80", "run 3 0.70", "run 4 0.60"},
		"  SFT\tqwen ": {"run 4 0.60", "run 3 0.60", "run 2 0.60", "run 1 0.60"},
		"模型":           {"run 1 0.70"},
		"训练 模型":        {"run 1 0.60"},
		"my":           {"run 3 0.80"},
		"qwne":         nil,
		"for qwen x":   {"run 4 0.41"},
		"100%":         nil,
		"__":           nil,
		"a b":          nil,
		runID(3):       {"run 3 1.00"},
		runID(3)[:29]:  nil,
	} {
		require.Equal(t, want, h.findAll(carol, &searchv1.SearchRequest{Q: q}), "%q", q)
	}
	require.Equal(t, []string{"run 2 0.95"}, h.findAll(carol, &searchv1.SearchRequest{Q: "qwen sft", Limit: new(int32(1))}))
	require.Equal(t, []string{"run 1 0.80", "run 4 0.60"}, h.findAll(carol, &searchv1.SearchRequest{Q: "qwen sft", Project: new("prj1")}))
	require.Empty(t, h.findAll(carol, &searchv1.SearchRequest{Q: "qwen sft", Kinds: []string{"job", "node", "fleet"}}))
}

// Neither the results nor the scores of the others show that a hidden run exists, by its id, its name or a similar one.
func TestFindServer_Search_hidesRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	eve := user(t.Context(), "eve")
	h.name(3, "shown plan")
	for _, q := range []string{"secret plan", "secret", "plan", "secret plam", runID(1)} {
		before := h.findAll(eve, &searchv1.SearchRequest{Q: q})
		h.name(1, "Secret plan")
		require.Equal(t, before, h.findAll(eve, &searchv1.SearchRequest{Q: q}), q)
		require.NotEmpty(t, h.findAll(user(t.Context(), "alice"), &searchv1.SearchRequest{Q: q}), "%s: the owner finds it", q)
		h.name(1, "Run 1")
	}
	require.Empty(t, h.findAll(authn.NewContext(authn.WithNeed(t.Context(), authn.NeedRead), &authn.Caller{}), &searchv1.SearchRequest{Q: "shown"}))
}

func TestFindServer_Search_nodesFleetsJobs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'gpu-room', 'agent', 'active', '{default}', $1)`, fixtures.Now())
	h.exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at)
		VALUES ('node_2', 'flt_1', 'gpu-room-7', 'ready', 1, 1, 1, 1, 'rlimit', '1', $1)`, fixtures.Now())
	require.Equal(t, []string{"fleet 1 0.95", "node 2 0.80"}, h.findAll(user(t.Context(), "eve"), &searchv1.SearchRequest{Q: "gpu-room"}))
	require.Empty(t, h.findAll(user(t.Context(), "eve"), &searchv1.SearchRequest{Q: "gpu-room", Project: new("prj1")}), "they have no project")
}

// requireFindPlan checks that a name of two Chinese characters, and a part of a longer one, is found by index among many
// runs, whatever the locale of the database is. Only common words may be found by reading the first rows that have them.
func requireFindPlan(t *testing.T, h *harness) {
	t.Helper()
	h.name(1, "训练")
	h.name(2, "我的训练模型")
	for q, want := range map[string]int{"训练": 2, "模型": 1, "Rare one 7007": 20, "usual": 20, runID(3): 1, "Rare onne": 20, "nothing like it": 0} {
		search := access.Search{Text: q, Kinds: []string{"run"}, Limit: 20}
		began := time.Now()
		plan := pgtest.Explain(t, h.pool, func(db pg.Querier) error {
			found, err := search.Find(t.Context(), db, authn.Scope{UserID: "usr_alice", Projects: []string{"prj_2"}}, tables())
			require.LessOrEqual(t, len(found), 20)
			require.GreaterOrEqual(t, len(found), min(want, 1), q)
			if want < 20 {
				require.Len(t, found, want, q)
			}
			return err
		})
		t.Logf("find %s: %v", q, time.Since(began).Round(time.Millisecond))
		require.Contains(t, plan, "run_name_pairs", plan)
		require.Contains(t, plan, "run_name_order", plan)
		if want < 20 {
			require.NotContains(t, plan, "Seq Scan on run", "%s: %s", q, plan)
		}
	}
}
