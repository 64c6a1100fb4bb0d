package jobfile

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

const whole = `# a job
api: service/v1
spec:
  name: first
  hparams:
    optim.lr: 0.1
    "steps": 3
  resources:
    pools:
      - pool: a
        nodes: 0
      - {pool: b,
         cpu: -1}
`

const specOnly = `name: first
base: &base
  cpu: 1
  memory_gb: 2
recipe: custom/custom
source:
  command: [python,
    train.py]
resources:
  pools:
    - <<: *base
      memory_gb: -1
    - *base
`

func TestFind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, path   string
		line, column int
		missing      bool
	}{
		"member":             {whole, `["body","spec","name"]`, 4, 3, false},
		"dialect":            {whole, `["body","api"]`, 2, 1, false},
		"dotted name":        {whole, `["body","spec","hparams","optim.lr"]`, 6, 5, false},
		"quoted name":        {whole, `["body","spec","hparams","steps"]`, 7, 5, false},
		"item":               {whole, `["body","spec","resources","pools",0]`, 10, 9, false},
		"member of an item":  {whole, `["body","spec","resources","pools",0,"nodes"]`, 11, 9, false},
		"flow style":         {whole, `["body","spec","resources","pools",1,"cpu"]`, 13, 10, false},
		"missing member":     {whole, `["body","spec","resources","pools",1,"nodes"]`, 12, 9, true},
		"missing item":       {whole, `["body","spec","resources","pools",2,"pool"]`, 9, 5, true},
		"missing object":     {whole, `["body","spec","limits","running_s"]`, 3, 1, true},
		"index of an object": {whole, `["body","spec",0]`, 3, 1, true},
		"name of a list":     {whole, `["body","spec","resources","pools","pool"]`, 9, 5, true},
		"member of a text":   {whole, `["body","spec","name","x"]`, 4, 3, true},
		"negative index":     {whole, `["body","spec","resources","pools",-1]`, 9, 5, true},
		"fraction":           {whole, `["body","spec","resources","pools",0.5]`, 9, 5, true},
		"whole body":         {whole, `["body"]`, 2, 1, false},
		"no path":            {whole, `[]`, 2, 1, false},

		"spec alone":         {specOnly, `["body","spec","name"]`, 1, 1, false},
		"spec itself":        {specOnly, `["body","spec"]`, 1, 1, false},
		"short recipe":       {specOnly, `["body","spec","recipe","lock"]`, 5, 1, true},
		"item on a new line": {specOnly, `["body","spec","source","command",1]`, 8, 5, false},
		"merged member":      {specOnly, `["body","spec","resources","pools",0,"cpu"]`, 3, 3, false},
		"own member wins":    {specOnly, `["body","spec","resources","pools",0,"memory_gb"]`, 12, 7, false},
		"alias":              {specOnly, `["body","spec","resources","pools",1,"cpu"]`, 3, 3, false},
		"outside of spec":    {specOnly, `["body","api"]`, 1, 1, true},

		"JSON":       {"{\n \"spec\": {\n  \"name\": \"\"}}", `["body","spec","name"]`, 3, 3, false},
		"spec text":  {"spec: x\nname: y\n", `["body","spec","name"]`, 2, 1, false},
		"empty file": {"", `["body","spec","name"]`, 1, 1, true},
		"own merge":  {"name: x\npools: &p\n  <<: *p\n", `["body","spec","pools","x"]`, 2, 1, true},
		"a list":     {"- a\n", `["body","spec","name"]`, 1, 1, true},
	} {
		var path []any
		require.NoError(t, json.Unmarshal([]byte(c.path), &path), name)
		place, err := Find([]byte(c.file), path)
		require.NoError(t, err, name)
		require.Equal(t, Place{Line: c.line, Column: c.column, Missing: c.missing}, place, name)
	}
	_, err := Find([]byte("a: [b"), nil)
	require.ErrorContains(t, err, "read the job: ")
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		response string
		want     []string
	}{
		"fields": {
			`{"detail":[{"loc":["body","spec","resources","pools",1,"cpu"],"msg":"too small","type":"x"},` +
				`{"loc":["body","spec","recipe"],"msg":"Field required","type":"missing"},` +
				`{"loc":["body","spec","hparams","optim.lr"],"msg":"no number","type":"x"}]}`,
			[]string{
				"job.yaml:13: spec.resources.pools[1].cpu: too small",
				"job.yaml:3: spec.recipe: Field required",
				`job.yaml:6: spec.hparams["optim.lr"]: no number`,
			},
		},
		"of a flag": {
			`{"detail":[{"loc":["body","spec","resources","pools",0,"cpu"],"msg":"no number","type":"x"}]}`,
			[]string{"--set resources.pools.0.cpu: no number"},
		},
		"outside of the body": {`{"detail":[{"loc":["query","limit"],"msg":"too small"}]}`, []string{"job.yaml: query.limit: too small"}},
		"text":                {`{"detail":"quota: requested 2 GPUs, 1 available"}`, nil},
		"not JSON":            {`<html>`, nil},
	} {
		require.Equal(t, c.want, Explain("job.yaml", []byte(whole), []byte(c.response), []string{"limits.running_s", "resources.pools.0.cpu"}), name)
	}
}
