package ownjob

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/sbatch"
)

// read returns a script as the command reads it: with the flags.
func read(t *testing.T, text string, flags Flags) *sbatch.Script {
	t.Helper()
	o, err := flags.Overrides()
	require.NoError(t, err)
	script, err := sbatch.Read(text, o)
	require.NoError(t, err)
	return script
}

const lines = "#!/bin/bash -e\n#SBATCH -J lines -p slow -N 2 -t 1:00:00 --gpus-per-node=4 --mem=10G\n" +
	"#SBATCH --comment='my notes' --no-requeue -c 8\ntorchrun train.py\n"

func TestSpec(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script  string
		request Request
		// want is the spec without its recipe.
		want string
	}{
		"command alone": {
			"",
			Request{Command: []string{"torchrun", "src/train.py", "--lr", "1"}},
			`{"name":"train","source":{"command":["torchrun","src/train.py","--lr","1"]},"resources":{"pools":[{"pool":"default","nodes":1}]}}`,
		},
		"all flags": {
			"",
			Request{
				Command: []string{"make"}, Project: "search", Env: map[string]string{"A": "x\ny"},
				Flags: Flags{
					GPUs: new(8), Nodes: 2, Pool: "h100", Time: "1-12", Name: "mine", Requirements: "./locks/requirements.txt",
				},
			},
			`{"name":"mine","project":"search","source":{"command":["make"]},"env":{"A":"x\ny"},"limits":{"running_s":129600},
			"runtime":{"requirements":"locks/requirements.txt"},"resources":{"pools":[{"pool":"h100","nodes":2,"gpus_per_node":8}]}}`,
		},
		"interpreter and units": {
			"",
			Request{Command: []string{"/usr/bin/python3"}, Flags: Flags{Python: "torch-2", Time: "1h30m", GPUs: new(0)}},
			`{"name":"python3","source":{"command":["/usr/bin/python3"]},"limits":{"running_s":5400},"runtime":{"node":"torch-2"},
			"resources":{"pools":[{"pool":"default","nodes":1}]}}`,
		},
		"script": {
			lines,
			Request{ScriptPath: "jobs/train.sbatch", Command: []string{"a b"}},
			`{"name":"lines","notes":"my notes","source":{"command":["/bin/bash","-e","jobs/train.sbatch","a b"]},"limits":{"running_s":3600},
			"retry":{"max":0},
			"resources":{"pools":[{"pool":"slow","nodes":2,"gpus_per_node":4,"cpu":8,"memory_gb":10}]}}`,
		},
		"flags win over lines": {
			lines,
			Request{
				ScriptPath: "train.sbatch",
				Flags:      Flags{Nodes: 1, GPUs: new(0), Pool: "fast", Time: "30", Name: "flag"},
			},
			`{"name":"flag","notes":"my notes","source":{"command":["/bin/bash","-e","train.sbatch"]},"limits":{"running_s":1800},
			"retry":{"max":0},"resources":{"pools":[{"pool":"fast","nodes":1,"cpu":8,"memory_gb":10}]}}`,
		},
		"script without a name": {
			"#!/bin/sh\ntrue\n",
			Request{ScriptPath: "jobs/tune.sbatch"},
			`{"name":"tune","source":{"command":["/bin/sh","jobs/tune.sbatch"]},"resources":{"pools":[{"pool":"default","nodes":1}]}}`,
		},
	} {
		r := c.request
		r.DefaultPool = "default"
		if c.script != "" {
			r.Script = read(t, c.script, r.Flags)
		}
		spec, err := Spec(r)
		require.NoError(t, err, name)
		raw, err := json.Marshal(spec)
		require.NoError(t, err, name)
		var want map[string]any
		require.NoError(t, json.Unmarshal([]byte(c.want), &want), name)
		want["recipe"] = map[string]any{"name": Recipe}
		whole, err := json.Marshal(want)
		require.NoError(t, err, name)
		require.JSONEq(t, string(whole), string(raw), name)
	}
}

func TestSpec_refusals(t *testing.T) {
	t.Parallel()
	run := []string{"python", "train.py"}
	for name, c := range map[string]struct {
		request Request
		want    string
	}{
		"no command":         {Request{}, "the command is missing"},
		"empty program":      {Request{Command: []string{""}}, "the command is missing"},
		"NUL":                {Request{Command: []string{"a", "b\x00"}}, "contains NUL"},
		"two environments":   {Request{Command: run, Flags: Flags{Python: "a", Requirements: "b"}}, "exclude each other"},
		"absolute lock":      {Request{Command: run, Flags: Flags{Requirements: "/etc/passwd"}}, "not a file in the submitted folder"},
		"lock above":         {Request{Command: run, Flags: Flags{Requirements: "a/../../b"}}, "not a file in the submitted folder"},
		"folder as a lock":   {Request{Command: run, Flags: Flags{Requirements: "."}}, "not a file in the submitted folder"},
		"script above":       {Request{Script: &sbatch.Script{Interpreter: []string{"sh"}}, ScriptPath: "../x"}, `the script "../x"`},
		"negative nodes":     {Request{Command: run, Flags: Flags{Nodes: -1}}, "--nodes -1"},
		"many nodes":         {Request{Command: run, Flags: Flags{Nodes: 4097}}, "--nodes 4097"},
		"negative GPUs":      {Request{Command: run, Flags: Flags{GPUs: new(-1)}}, "--gpus -1"},
		"many GPUs":          {Request{Command: run, Flags: Flags{GPUs: new(65)}}, "--gpus 65"},
		"not a time":         {Request{Command: run, Flags: Flags{Time: "soon"}}, `--time "soon" is not a time`},
		"no limit":           {Request{Command: run, Flags: Flags{Time: "0"}}, "requests no time limit"},
		"long time":          {Request{Command: run, Flags: Flags{Time: "9000h"}}, "from one second to one year"},
		"negative time":      {Request{Command: run, Flags: Flags{Time: "-5m"}}, "from one second to one year"},
		"long time of Slurm": {Request{Command: run, Flags: Flags{Time: "366-0"}}, "longer than a year"},
	} {
		body, err := Spec(c.request)
		require.Nil(t, body, name)
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestNameOf_isBounded(t *testing.T) {
	t.Parallel()
	require.Equal(t, strings.Repeat("é", maxName), nameOf([]string{strings.Repeat("é", 200)}, ""))
	require.Equal(t, ".sh", nameOf([]string{".sh"}, ""))
}
