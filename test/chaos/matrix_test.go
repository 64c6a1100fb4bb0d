package chaos

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
)

// stage is a stage of training or serving in which a process is killed.
type stage string

const (
	environment stage = "environment"
	training    stage = "training"
	upload      stage = "upload"
	engineStart stage = "engine_start"
	promoted    stage = "promoted"
)

func stages() []stage { return []stage{environment, training, upload, engineStart, promoted} }

// processes returns the processes of an installation that runs one process per service.
func processes() []string {
	return []string{"auth", "jobs", "ingest", "registry", "inference", "gateway", "agent"}
}

// row is one combination of a stage and a process to kill.
type row struct {
	stage   stage
	process string
	late    bool // restart the process only after its symptom has appeared; otherwise at once
}

func (r row) String() string {
	how := "restarted_at_once"
	if r.late {
		how = "restarted_late"
	}
	return fmt.Sprintf("%s/%s/%s", r.stage, r.process, how)
}

// matrix returns a row for each stage and process. In each stage, rows with a late restart alternate with the others.
func matrix(processes []string) []row {
	var rows []row
	for i, s := range stages() {
		for j, v := range processes {
			rows = append(rows, row{s, v, (i+j)%2 == 0})
		}
	}
	return rows
}

// selectRows selects n rows with different stages and processes. If n is at least 2, some of the rows restart their
// process late and some at once. The same seed selects the same rows.
func selectRows(rows []row, n int, seed uint64) []row {
	per := len(rows) / len(stages())
	for from := int(seed % uint64(len(rows))); ; from++ {
		var out []row
		delays := map[bool]bool{}
		for i := range n {
			r := rows[((i+from)%len(stages()))*per+(i*3+from)%per]
			out, delays[r.late] = append(out, r), true
		}
		if len(delays) == min(n, 2) {
			return out
		}
	}
}

// leftOut returns the rows whose stage occurs in none of the selected rows.
func leftOut(rows, selected []row) []row {
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
		return slices.ContainsFunc(selected, func(s row) bool { return s.stage == r.stage })
	})
}

// TestLeftOut_completesStages requires that the two tests of killed processes together cover every stage with any seed.
func TestLeftOut_completesStages(t *testing.T) {
	t.Parallel()
	all, single := matrix(processes()), matrix([]string{"signalboxd"})
	for seed := range uint64(2 * len(all)) {
		four := selectRows(all, 4, seed)
		stagesSeen := map[stage]bool{}
		for _, r := range append(four, leftOut(single, four)...) {
			stagesSeen[r.stage] = true
		}
		require.Len(t, leftOut(single, four), 1, "seed %d", seed)
		require.Len(t, stagesSeen, len(stages()), "seed %d", seed)
	}
}

func TestMatrix_coversEveryStageAndProcess(t *testing.T) {
	t.Parallel()
	rows := matrix(processes())
	require.Len(t, rows, len(processes())*len(stages()))
	seen, names := map[[2]string]bool{}, map[string]bool{}
	late := map[string]int{}
	for _, r := range rows {
		seen[[2]string{string(r.stage), r.process}], names[r.String()] = true, true
		if r.late {
			late[string(r.stage)]++
			late[r.process]++
		}
	}
	require.Len(t, seen, len(rows))
	require.Len(t, names, len(rows))
	for _, s := range stages() {
		require.GreaterOrEqual(t, late[string(s)], 3, "every stage must have rows with a late restart")
	}
	for _, v := range processes() {
		require.GreaterOrEqual(t, late[v], 2, "every process must have rows with a late restart")
		require.Less(t, late[v], len(stages()), "every process must have rows with an immediate restart")
	}
}

func TestSelectRows_spreadsRows(t *testing.T) {
	t.Parallel()
	allRows := matrix(processes())
	drawn := map[row]bool{}
	for seed := range uint64(2 * len(allRows)) {
		stagesSeen, processesSeen, delays := map[stage]bool{}, map[string]bool{}, map[bool]bool{}
		for _, r := range selectRows(allRows, 4, seed) {
			stagesSeen[r.stage], processesSeen[r.process], delays[r.late], drawn[r] = true, true, true, true
		}
		require.Len(t, stagesSeen, 4)
		require.Len(t, processesSeen, 4)
		require.Len(t, delays, 2)
	}
	require.Len(t, drawn, len(allRows), "each row must be selected by some seed")
}

func TestSymptoms_routesBelongToProcess(t *testing.T) {
	t.Parallel()
	services := map[string]string{}
	for _, rt := range route.Table() {
		if rt.Method == "GET" {
			services[rt.Pattern] = rt.Service
		}
	}
	for _, v := range append(processes(), "signalboxd") {
		s := symptoms()[v]
		require.NotEqual(t, symptom{}, s, v)
		switch service, known := services[s.route]; {
		case s.route == "":
			require.NotEmpty(t, s.line, v)
		case service == "":
			require.True(t, known)
			require.Contains(t, []string{"gateway", "signalboxd"}, v, "only the gateway and signalboxd may serve this route themselves")
		default:
			require.Equal(t, v, service)
		}
	}
}
