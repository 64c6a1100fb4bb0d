package runsearch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

func TestServer_SearchRuns_filters(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.describe()
	h.exec(`UPDATE run SET labels = NULL, recipe_lock = '{}' WHERE id = $1`, runID(3))
	for filter, want := range map[string]string{
		``: "4321",
		`{"field":"id","value":"` + runID(2) + `"}`:                                                    "2",
		`{"field":"name","op":"contains","value":"RUN 3"}`:                                             "3",
		`{"field":"name","op":"contains","value":"_"}`:                                                 "",
		`{"field":"name","value":"Run 3"}`:                                                             "3",
		`{"field":"project","value":"prj_1"}`:                                                          "41",
		`{"field":"project","op":"in","value":["prj1","prj_2"]}`:                                       "4321",
		`{"field":"owner","op":"ne","value":"bob"}`:                                                    "41",
		`{"field":"recipe","value":"sft/r0"}`:                                                          "42",
		`{"field":"recipe","op":"ne","value":"sft/r0"}`:                                                "31",
		`{"field":"state","op":"in","value":["running","failed"]}`:                                     "42",
		`{"field":"tag","value":"T1"}`:                                                                 "31",
		`{"field":"tag","op":"ne","value":"t1"}`:                                                       "42",
		`{"field":"protected","value":true}`:                                                           "",
		`{"field":"label.n","value":"2"}`:                                                              "2",
		`{"field":"label.n","op":"ne","value":"2"}`:                                                    "431",
		`{"field":"label.n","op":"exists"}`:                                                            "421",
		`{"field":"label.n","op":"exists","value":false}`:                                              "3",
		`{"field":"ended_at","op":"exists"}`:                                                           "321",
		`{"not":{"field":"ended_at","op":"ge","value":"2026-01-01T00:00:00Z"}}`:                        "4",
		`{"field":"created_at","op":"lt","value":"2000-01-01T00:00:00Z"}`:                              "",
		`{"field":"created_at","op":"lt","value":"2000-01-01 00:00:00-0330"}`:                          "",
		`{"field":"hparam.optim.lr","value":0.01}`:                                                     "2",
		`{"field":"hparam.optim.lr","op":"le","value":1e-3}`:                                           "1",
		`{"field":"hparam.optim.lr","op":"ne","value":0.01}`:                                           "431",
		`{"field":"hparam.optim.lr","value":"auto"}`:                                                   "3",
		`{"field":"hparam.optim.name","op":"in","value":["adam","sgd"]}`:                               "21",
		`{"field":"hparam.flag","value":true}`:                                                         "4",
		`{"field":"hparam.optim.lr","op":"exists"}`:                                                    "321",
		`{"field":"metric.loss.last","op":"gt","value":0}`:                                             "21",
		`{"field":"metric.loss.min","op":"lt","value":0.3}`:                                            "2",
		`{"field":"metric.loss.max","op":"ge","value":3}`:                                              "2",
		`{"field":"metric.loss.max","op":"exists","value":false}`:                                      "43",
		`{"field":"metric.eval.acc.last","value":0.75}`:                                                "4",
		`{"or":[{"field":"state","value":"running"},{"field":"hparam.optim.lr","value":0.01}]}`:        "42",
		`{"and":[{"field":"owner","value":"bob"},{"not":{"field":"metric.loss.last","op":"exists"}}]}`: "",
	} {
		require.Equal(t, want, h.search(&jobsv1.SearchRunsRequest{Filter: []byte(filter)}), filter)
	}
	h.exec(`UPDATE run SET archived_at = now() WHERE id = $1`, runID(2))
	require.Equal(t, "431", h.search(&jobsv1.SearchRunsRequest{}))
	require.Equal(t, "2", h.search(&jobsv1.SearchRunsRequest{Archived: new("true")}))
	require.Equal(t, "4321", h.search(&jobsv1.SearchRunsRequest{Archived: new("all")}))
}

func TestFilter_refusesWhatItCannotTranslate(t *testing.T) {
	t.Parallel()
	nest := func(n int) string {
		return strings.Repeat(`{"not":`, n) + `{"field":"tag","value":"a"}` + strings.Repeat(`}`, n)
	}
	many := func(n int) string {
		one := strings.TrimSuffix(strings.Repeat(`{"field":"tag","value":"a"},`, n), ",")
		return `{"and":[{"or":[` + one + `]},{"or":[` + one + `]}]}`
	}
	for given, loc := range map[string]string{
		`{`:          "filter",
		`[]`:         "filter",
		`{}`:         "filter",
		`{"and":[]}`: "filter.and",
		`{"and":[{"field":"tag","value":"a"}],"or":[]}`: "filter",
		`{"and":[{"field":"tag","value":"a"},3]}`:       "filter.and[1]",
		`{"field":3}`:                                                           "filter.field",
		`{"field":"tag","x":1}`:                                                 "filter.x",
		`{"field":"nothing","value":"a"}`:                                       "filter",
		`{"field":"tag","op":"lt","value":"a"}`:                                 "filter",
		`{"field":"tag","value":"a\u0000"}`:                                     "filter",
		`{"field":"name","value":"` + strings.Repeat("a", 513) + `"}`:           "filter",
		`{"field":"protected","value":"true"}`:                                  "filter",
		`{"field":"created_at","op":"lt","value":"yesterday"}`:                  "filter",
		`{"field":"created_at","op":"contains","value":"2026-01-01T00:00:00Z"}`: "filter",
		`{"field":"hparam.","value":1}`:                                         "filter",
		`{"field":"hparam.a","value":[1]}`:                                      "filter",
		`{"field":"hparam.a","op":"lt","value":"x"}`:                            "filter",
		`{"field":"hparam.a","value":1e999}`:                                    "filter",
		`{"field":"metric.loss","op":"lt","value":1}`:                           "filter",
		`{"field":"metric.loss.mean","op":"lt","value":1}`:                      "filter",
		`{"field":"metric.loss.last","value":"x"}`:                              "filter",
		`{"field":"tag","op":"in","value":[]}`:                                  "filter",
		`{"field":"tag","op":"in","value":["a",["b"]]}`:                         "filter",
		`{"field":"label.a=b","value":"c"}`:                                     "filter",
		`{"field":"label.a","op":"exists","value":"c"}`:                         "filter",
		nest(8):  "filter" + strings.Repeat(".not", 8),
		many(26): "filter",
	} {
		f := &filter{Selection: db.Select(access.ServiceScope())}
		err := f.where([]byte(given))
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", given, err)
		require.Equal(t, loc, fault.Path(fault.From(err).Fields[0].Loc), given)
		require.LessOrEqual(t, len(f.faults), maxComparisons+1)
	}
	for _, valid := range []string{nest(7), many(25)} {
		require.NoError(t, (&filter{Selection: db.Select(access.ServiceScope())}).where([]byte(valid)))
	}
}
