package chaos

import (
	"fmt"
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

// victims returns the processes of an installation that runs one process per service.
func victims() []string {
	return []string{"auth", "jobs", "ingest", "registry", "inference", "gateway", "agent"}
}

// row is one combination of a stage and a process to kill.
type row struct {
	stage  stage
	victim string
	away   bool // restart the process only after others have noticed that it is down; otherwise at once
}

func (r row) String() string {
	how := "back_at_once"
	if r.away {
		how = "away"
	}
	return fmt.Sprintf("%s/%s/%s", r.stage, r.victim, how)
}

// matrix returns a row for each stage and process. Every second row has away set.
func matrix(victims []string) []row {
	var rows []row
	for i, s := range stages() {
		for j, v := range victims {
			rows = append(rows, row{s, v, (i+j)%2 == 0})
		}
	}
	return rows
}

// some selects n rows with different stages and processes. If n is at least 2, away is set in some of them
// but not in all. The seed determines the first row.
func some(rows []row, n int, seed uint64) []row {
	per := len(rows) / len(stages())
	for from := int(seed % uint64(len(rows))); ; from++ {
		var out []row
		ways := map[bool]bool{}
		for i := range n {
			r := rows[((i+from)%len(stages()))*per+(i*3+from)%per]
			out, ways[r.away] = append(out, r), true
		}
		if len(ways) == min(n, 2) {
			return out
		}
	}
}

func TestMatrix_coversEveryStageAndProcess(t *testing.T) {
	t.Parallel()
	rows := matrix(victims())
	require.Len(t, rows, len(victims())*len(stages()))
	seen, names := map[[2]string]bool{}, map[string]bool{}
	away := map[string]int{}
	for _, r := range rows {
		seen[[2]string{string(r.stage), r.victim}], names[r.String()] = true, true
		if r.away {
			away[string(r.stage)]++
			away[r.victim]++
		}
	}
	require.Len(t, seen, len(rows))
	require.Len(t, names, len(rows))
	for _, s := range stages() {
		require.GreaterOrEqual(t, away[string(s)], 3, "every stage must have rows with away")
	}
	for _, v := range victims() {
		require.GreaterOrEqual(t, away[v], 2, "every process must have rows with away")
		require.Less(t, away[v], len(stages()), "every process must have rows without away")
	}
}

func TestMatrix_someSpreadsRows(t *testing.T) {
	t.Parallel()
	all := matrix(victims())
	drawn := map[row]bool{}
	for seed := range uint64(2 * len(all)) {
		stagesSeen, victimsSeen, ways := map[stage]bool{}, map[string]bool{}, map[bool]bool{}
		for _, r := range some(all, 4, seed) {
			stagesSeen[r.stage], victimsSeen[r.victim], ways[r.away], drawn[r] = true, true, true, true
		}
		require.Len(t, stagesSeen, 4)
		require.Len(t, victimsSeen, 4)
		require.Len(t, ways, 2)
	}
	require.Len(t, drawn, len(all), "some seed must draw every row")
}

func TestSigns_routesBelongToVictim(t *testing.T) {
	t.Parallel()
	services := map[string]string{}
	for _, rt := range route.Table() {
		if rt.Method == "GET" {
			services[rt.Pattern] = rt.Service
		}
	}
	for _, v := range append(victims(), "signalboxd") {
		s := signs()[v]
		require.NotEqual(t, sign{}, s, v)
		switch service, known := services[s.route]; {
		case s.route == "":
			require.NotEmpty(t, s.line, v)
		case service == "":
			require.True(t, known)
			require.Contains(t, []string{"gateway", "signalboxd"}, v, "only these serve the route themselves")
		default:
			require.Equal(t, v, service)
		}
	}
}
