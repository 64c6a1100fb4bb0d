package sbatch

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refused returns the lines and names of the refusals in an error.
func refused(t *testing.T, err error) []string {
	t.Helper()
	var all RefusedErrors
	require.ErrorAs(t, err, &all)
	var out []string
	for _, one := range all {
		out = append(out, strconv.Itoa(one.Line)+" "+one.Name)
		require.Contains(t, one.Problem, "; ", "%s must name the remedy", one.Name)
	}
	return out
}

const everyNode = "the script runs on each of its nodes, and not only on the first as with sbatch"

func TestRead_scripts(t *testing.T) {
	t.Parallel()
	bash := []string{"/bin/bash"}
	type result struct {
		script  *Script
		refused []string
	}
	want := map[string]result{
		"single-gpu": {script: &Script{
			Interpreter: bash, Name: "digits", Pool: "gpu", Nodes: 1, GPUsPerNode: 1, CPU: 6, MemoryGB: 24, RunningS: 9000,
			Output: "logs/%x-%j.out", OutputLine: 8,
		}},
		"torchrun-nodes": {script: &Script{
			Interpreter: bash, Name: "pretrain", Nodes: 2, GPUsPerNode: 8, CPU: 64, RunningS: 86400, Warnings: []string{everyNode},
		}},
		"deepspeed": {script: &Script{
			Interpreter: []string{"/usr/bin/env", "bash"}, Name: "finetune", Nodes: 1, GPUsPerNode: 4, CPU: 48, MemoryGB: 240,
			RunningS: 43200,
		}},
		"python": {script: &Script{
			Interpreter: []string{"/usr/bin/env", "python3"}, Name: "small model", Nodes: 1, CPU: 4,
			Warnings: []string{
				"line 9: #SBATCH after the first command has no effect; move the line up if it should have one",
				"line 4: --mem=0 requests no memory here; the default of the pool applies",
				"line 5: --export=ALL has no effect; variables of your shell are not sent, so give those that the job needs with --env-file",
			},
		}},
		"processes": {script: &Script{
			Interpreter: bash, Nodes: 2, GPUsPerNode: 8, CPU: 56, MemoryGB: 219, RunningS: 302400, Warnings: []string{everyNode},
		}},
		"torchrun-srun": {refused: []string{"7 scontrol", "7 $SLURM_JOB_NODELIST", "9 srun", "11 srun"}},
		"array":         {refused: []string{"3 --array", "4 --output", "8 $SLURM_ARRAY_TASK_ID"}},
		"container":     {refused: []string{"5 --exclusive", "8 srun", "10 singularity"}},
		"conda":         {refused: []string{"3 --gres", "6 module", "7 module", "8 conda.sh", "9 conda"}},
		"mail-account":  {refused: []string{"2 -A", "3 -q", "4 --mail-user", "5 --mail-type", "6 -C", "7 -d", "9 --error"}},
	}
	files, err := filepath.Glob("testdata/*.sbatch")
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		expected, ok := want[strings.TrimSuffix(filepath.Base(file), ".sbatch")]
		require.True(t, ok, file)
		script, err := Read(string(raw), Overrides{})
		if expected.script != nil {
			require.NoError(t, err, file)
			require.Equal(t, expected.script, script, file)
			continue
		}
		require.Nil(t, script, file)
		require.Equal(t, expected.refused, refused(t, err), file)
	}
}

// script returns a script with a line for each of the given options.
func script(options ...string) string {
	return "#!/bin/sh\n#SBATCH " + strings.Join(options, "\n#SBATCH ") + "\ntrue\n"
}

func TestRead_spellings(t *testing.T) {
	t.Parallel()
	for _, options := range []string{
		"--nodes=3", "--nodes 3", "-N3", "-N 3", "--nodes=3-3", "--nodes=3 --part=x", `--nodes="3"`, `"--nodes" '3'`, "\t--nodes=3", "--nodes=3 # -N 4",
		"-N 4 -N 3", "-J name -N3",
	} {
		s, err := Read(script(options), Overrides{})
		require.NoError(t, err, options)
		require.Equal(t, 3, s.Nodes, options)
	}
	s, err := Read("#!/bin/sh\n\n# text\n  # text\n#SBATCH -J a\\ b\n#SBATCH --job-name='c # \"d'\n # SBATCH -N 2\n", Overrides{})
	require.NoError(t, err)
	require.Equal(t, `c # "d`, s.Name)
	require.Equal(t, 1, s.Nodes)
}

func TestRead_numbers(t *testing.T) {
	t.Parallel()
	type sizes struct{ nodes, gpus, cpu, memory int }
	for options, want := range map[string]sizes{
		"--ntasks=4":                                  {1, 0, 0, 0},
		"--ntasks=4 --cpus-per-task=2":                {1, 0, 8, 0},
		"--ntasks=8 --ntasks-per-node=4 -c 2":         {2, 0, 8, 0},
		"--nodes=2 --ntasks=8 --gpus-per-task=1":      {2, 4, 0, 0},
		"--nodes=2 --ntasks=8 --ntasks-per-node=4":    {2, 0, 0, 0},
		"--nodes=2 --gpus=8":                          {2, 4, 0, 0},
		"--gpus=8 -N 2 --gres=gpu:4":                  {2, 4, 0, 0},
		"--gres=gpu":                                  {1, 1, 0, 0},
		"--gres=none":                                 {1, 0, 0, 0},
		"--mem=1":                                     {1, 0, 0, 1},
		"--mem=1025M":                                 {1, 0, 0, 2},
		"--mem=1048577K":                              {1, 0, 0, 2},
		"--mem=2T":                                    {1, 0, 0, 2048},
		"--mem=20Gb":                                  {1, 0, 0, 20},
		"--mem-per-cpu=2G --ntasks=4 -c 2":            {1, 0, 8, 16},
		"--mem-per-cpu=2G --ntasks-per-node=4":        {1, 0, 0, 8},
		"--mem-per-gpu=40G --cpus-per-gpu=8 --gpus 2": {1, 2, 16, 80},
	} {
		s, err := Read(script(options), Overrides{})
		require.NoError(t, err, options)
		require.Equal(t, want, sizes{s.Nodes, s.GPUsPerNode, s.CPU, s.MemoryGB}, options)
	}
}

func TestRead_refusals(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		"--nodes=1-2":                            "2 --nodes",
		"--nodes=0":                              "2 --nodes",
		"--nodes=1k":                             "2 --nodes",
		"--nodes":                                "2 --nodes",
		"--nodes=":                               "2 --nodes",
		"-N":                                     "2 -N",
		"--nodes=4097":                           "2 --nodes",
		"--unknown=1":                            "2 --unknown",
		"--gpu=1":                                "2 --gpu",
		"-y":                                     "2 -y",
		"-HN2":                                   "2 -H",
		"--hold=1":                               "2 --hold",
		"--nodes=2 left":                         "2 left",
		"hetjob":                                 "2 hetjob",
		"--job-name='a":                          "2 #SBATCH",
		`--job-name=a\`:                          "2 #SBATCH",
		"--job-name=" + strings.Repeat("x", 129): "2 --job-name",
		"--partition=a,b":                        "2 --partition",
		"--time=soon":                            "2 --time",
		"--time=UNLIMITED":                       "2 --time",
		"--ntasks=5 --ntasks-per-node=2":         "2 --ntasks",
		"--nodes=2 --ntasks=5":                   "2 --ntasks",
		"--nodes=2 --ntasks=5 --ntasks-per-node=2": "2 --ntasks",
		"--nodes=2 --gpus=5":                       "2 --gpus",
		"--gres=gpu:h100":                          "2 --gres",
		"--gres=gpu:h100:2,gpu:a100:2":             "2 --gres",
		"--gres=lustre:1":                          "2 --gres",
		"--gpus=a100:x":                            "2 --gpus",
		"--gpus-per-node=65":                       "2 --gpus-per-node",
		"--gres=gpu:2 --gpus-per-node=4":           "2 --gres",
		"--cpus-per-gpu=2":                         "2 --cpus-per-gpu",
		"--cpus-per-task=2 --cpus-per-gpu=2 -G 4":  "2 --cpus-per-gpu",
		"--mem-per-gpu=2G":                         "2 --mem-per-gpu",
		"--mem=4.5G":                               "2 --mem",
		"--mem=5B":                                 "2 --mem",
		"--mem=999999999T":                         "2 --mem",
		"--output=%N.txt":                          "2 --output",
		"--output=a%":                              "2 --output",
		"--error=a":                                "2 --error",
		"--export=ALL,A=1":                         "2 --export",
		"--mail-type=END":                          "2 --mail-type",
		"-W":                                       "2 -W",
	} {
		s, err := Read(script(options), Overrides{})
		require.Nil(t, s, options)
		require.Equal(t, []string{want}, refused(t, err), options)
	}
}

func TestRead_namesEachRefusal(t *testing.T) {
	t.Parallel()
	_, err := Read(script("--array=1-2", "--gres=gpu:2", "--gpus-per-node=4", "--account=x"), Overrides{})
	require.Equal(t, []string{"2 --array", "3 --gres", "5 --account"}, refused(t, err))
	require.ErrorContains(t, err, "line 2: --array has no meaning here; submit the script once for each index")
	require.ErrorContains(t, err, "line 3: --gres requests 2 GPUs on each node, but --gpus-per-node of line 4 requests 4; keep one of them")
}

func TestRead_flagsWin(t *testing.T) {
	t.Parallel()
	gpus := 2
	flags := Overrides{Name: "flag", Pool: "fast", Nodes: 2, RunningS: 60, GPUsPerNode: &gpus}
	s, err := Read(script("--job-name="+strings.Repeat("x", 129), "--partition=a,b", "--nodes=1-9", "--time=UNLIMITED", "--gres=gpu:h100"), flags)
	require.NoError(t, err)
	require.Equal(t, &Script{
		Interpreter: []string{"/bin/sh"}, Name: "flag", Pool: "fast", Nodes: 2, GPUsPerNode: 2, RunningS: 60, Warnings: []string{everyNode},
	}, s)

	s, err = Read(script("--gres=gpu:h100:4", "--gpus=8"), Overrides{Pool: "fast", Nodes: 2})
	require.NoError(t, err)
	require.Equal(t, 4, s.GPUsPerNode, "a total is spread over the nodes of the flag")
	require.Contains(t, s.Warnings, "line 2: the type h100 of --gres has no effect; the pool fast decides the type")
}

func TestRead_afterTheHeader(t *testing.T) {
	t.Parallel()
	s, err := Read("#!/bin/sh\ntrue\n#SBATCH\t--nodes=4\n#SBATCH -N 2\n", Overrides{})
	require.NoError(t, err)
	const late = ": #SBATCH after the first command has no effect; move the line up if it should have one"
	require.Equal(t, []string{"line 3" + late, "line 4" + late}, s.Warnings)
}

func TestRead_retries(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]bool{"-N1": false, "--no-requeue": true, "--requeue": false} {
		s, err := Read(script(options), Overrides{})
		require.NoError(t, err, options)
		require.Equal(t, want, s.NoRetry, options)
	}
	s, err := Read(script("--no-requeue", "--requeue"), Overrides{})
	require.NoError(t, err)
	require.False(t, s.NoRetry, "the last line counts")
}

func TestRead_otherFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "1 the script",
		"python train.py\n":               "1 the script",
		"#! \n":                           "1 the script",
		"#!/bin/sh\ntrue\r\n":             "2 the line",
		"#!/bin/sh\n\na\x00":              "3 the script",
		"#!" + strings.Repeat("x", 1<<20): "1 the script",
	} {
		_, err := Read(text, Overrides{})
		require.Equal(t, []string{want}, refused(t, err), "%.20q", text)
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"1": 60, "90": 5400, "1:30": 90, "0:01": 1, "2:00:00": 7200, "100:00:00": 360000, "1-0": 86400, "1-2": 93600, "1-2:30": 95400,
		"1-2:30:15": 95415, "0-0:0:1": 1, "365-0": maxSeconds,
	} {
		got, err := Seconds(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "0", "0:0", "-1", "unlimited", "INFINITE", "x", "1:", ":1", "1-", "-", "1-2-3", "1:2:3:4", "1-2:3:4:5", "1.5", "+1", " 1", "1h", "366-0",
		"9999999999", "999999999-999999999:999999999:999999999",
	} {
		_, err := Seconds(text)
		require.Error(t, err, text)
	}
}

// FuzzRead looks for texts that end the program or are accepted without a number of nodes.
func FuzzRead(f *testing.F) {
	for _, text := range []string{script("-N2", "--gres=gpu:1"), "#!/bin/sh\n$(( `\"${ <<E\n", "#!/bin/sh\n)\\", "#!/bin/sh\ncase $'a' in (b) ((c;;\nesac"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read(text, Overrides{})
		if err == nil && (s.Nodes < 1 || s.Nodes > maxNodes || s.CPU > maxCPU || s.GPUsPerNode > maxGPUs || s.MemoryGB > maxMemoryGB) {
			t.Errorf("%+v", s)
		}
	})
}

func TestOptions_areComplete(t *testing.T) {
	t.Parallel()
	all := options()
	var names []string
	for _, o := range all {
		require.Contains(t, "=?-", string(rune(o.value)), o.long)
		require.LessOrEqual(t, len(o.short), 1, o.long)
		names = append(names, "--"+o.long)
		if o.short != "" {
			names = append(names, "-"+o.short)
		}
	}
	slices.Sort(names)
	require.Len(t, slices.Compact(slices.Clone(names)), len(names), "each name occurs once")
}

func TestOutputPath(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a/name-job_1-me-%j.txt", OutputPath("a/%x-%j-%u-%%j.txt", "job_1", "name", "me"))
	for pattern, want := range map[string]string{
		"%x/a": "__/a", "a/%x/..": "a/__/..", "%j/a": "_/a", ".%j": "__", "%u/a": "_/a", "%x%j": "...", "../a": "../a",
	} {
		require.Equal(t, want, OutputPath(pattern, ".", "..", ""), pattern)
	}
	require.Equal(t, "a/.._.._b-_-_.txt", OutputPath("a/%x-%j-%u.txt", "/", "../../b", "\x00"))
}
