package sbatch

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckBody(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"srun a":                            {"1 srun"},
		"/usr/bin/srun a":                   {"1 srun"},
		"a; srun b":                         {"1 srun"},
		"a && srun b || sbatch c":           {"1 srun", "1 sbatch"},
		"A=1 B=2 srun a":                    {"1 srun"},
		"if true; then\n  srun a\nfi":       {"2 srun"},
		"x=`srun a`":                        {"1 srun"},
		"x=\"$(echo \"$(scontrol y)\")\"":   {"1 scontrol"},
		"export A=$(scontrol show)":         {"1 scontrol"},
		"(cd x; srun y)":                    {"1 srun"},
		"a | sru\\\nn":                      {"2 srun"},
		"\"srun\" a":                        {"1 srun"},
		"f() { srun a; }":                   {"1 srun"},
		"case x in\n a) srun y ;;\nesac":    {"2 srun"},
		"echo 'a\nb'\nsrun c":               {"3 srun"},
		"cat <<E\nsrun\nE\nsrun":            {"4 srun"},
		"cat <<-'E' > f\nsrun\n\tE\nsbatch": {"4 sbatch"},
		"> f srun":                          {"1 srun"},
		"echo $SLURM_NNODES ${SLURM_X}":     {"1 $SLURM_NNODES", "1 $SLURM_X"},
		"echo $((SLURM + $SLURM_NODEID))":   {"1 $SLURM_NODEID"},
		". env/bin/activate":                {"1 activate"},
		"srun a; srun b":                    {"1 srun"},

		"2>/dev/null srun m":                            {"1 srun"},
		"timeout -s KILL 5 srun a":                      {"1 srun"},
		"env -u X A=1 srun a":                           {"1 srun"},
		"a | xargs -n1 -I {} srun {}":                   {"1 srun"},
		"exec -a x srun":                                {"1 srun"},
		"nohup nice -n 5 /usr/bin/time -p srun a":       {"1 srun"},
		"function f { srun g; }":                        {"1 srun"},
		"echo $'it\\'s'; srun a":                        {"1 srun"},
		"(( x << 2 ))\nsrun a":                          {"2 srun"},
		"for ((i = 0; i < 2; i++)); do srun a; done":    {"1 srun"},
		"case x in\na|module) srun y;;\nb) ml z\nesac":  {"2 srun", "3 ml"},
		"x=$(case x in (module) srun y;; esac; sbcast)": {"1 srun", "1 sbcast"},
		"case x in esac; srun":                          {"1 srun"},
		"mpirun -n 2 a; mpiexec b":                      {"1 mpirun", "1 mpiexec"},
		"source ~/.bashrc; . /etc/profile":              {"1 .bashrc", "1 profile"},
		"cd $SLURM_SUBMIT_DIR":                          {"1 $SLURM_SUBMIT_DIR"},

		"command -v srun":                       nil,
		"if ! command -v srun >/dev/null; then": nil,
		"timeout srun true":                     nil,
		"env -u srun a":                         nil,
		"echo 2>srun 3< srun":                   nil,
		"case x in module) a;; ml|conda) b;; *) c; esac; case y in\n srun)\n;;\n (sbatch | srun) ;;&\n srun) ;; esac": nil,
		"echo $'; srun'":                    nil,
		"((i<<=1)); echo srun":              nil,
		"function srun_all { a; }":          nil,
		"source etc/profile":                nil,
		"echo srun":                         nil,
		"# srun $SLURM_X":                   nil,
		"a # srun":                          nil,
		"a '$SLURM_X' '; srun'":             nil,
		"echo \"; srun\" \\$SLURM_X":        nil,
		"a > srun":                          nil,
		"a 2>&1 > srun":                     nil,
		"${SLURM_X:-1} ${SLURM_Y-1}":        nil,
		"${SLURM_X:+1} ${SLURM_Y=1}":        nil,
		"cat <<< srun":                      nil,
		"cat <<E\nsrun":                     nil,
		"echo $((1 << 2))":                  nil,
		"source settings.sh":                nil,
		"my-srun srun.py":                   nil,
		"SLURM_X=1; echo $MYSLURM_X $# $$":  nil,
		"echo ${#a} ${a#b} ${a##*/} $'\\''": nil,
		"'unfinished":                       nil,
		"\"unfinished $(":                   nil,
		"a\\":                               nil,
		")":                                 nil,
	} {
		var got []string
		for _, one := range checkBody(text, 1) {
			got = append(got, strconv.Itoa(one.Line)+" "+one.Name)
			require.Contains(t, one.Problem, "; ", text)
		}
		require.Equal(t, want, got, text)
	}
}

func TestCheckBody_remedies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"cd $SLURM_SUBMIT_DIR":          "; remove the line; the script runs in the submitted folder",
		"  cd \"${SLURM_SUBMIT_DIR}\"":  "; remove the line; the script runs in the submitted folder",
		"python $SLURM_SUBMIT_DIR/a.py": "; write a path without it; the script runs in the submitted folder",
		"echo $SLURM_ARRAY_TASK_ID":     "as in ${SLURM_ARRAY_TASK_ID:-1}",
		"echo $SLURM_CPUS_PER_TASK":     "as in ${SLURM_CPUS_PER_TASK:-1}",
		"echo $SLURM_JOB_NAME":          "as in ${SLURM_JOB_NAME:-text}",
		"echo $SLURM_TMPDIR":            "as in ${SLURM_TMPDIR:-/tmp}",
		"source ~/.bashrc":              "set variables with --env-file",
		"source /opt/env/bin/activate":  "choose the environment with --python or --requirements",
		"mpirun a":                      "torchrun",
	} {
		found := checkBody(text, 1)
		require.Len(t, found, 1, text)
		require.Contains(t, found[0].Problem, want, text)
	}
}
