package command_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImport_folder(t *testing.T) {
	t.Parallel()
	s := newModelServer(t)
	s.missing = true
	dir := modelFolder(t, "config.json", "model.safetensors", "sub/tokenizer.json")
	got := s.run("models", "import", "llama", dir, "--task", "embedding", "--description", "a base", "--project", "search")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, map[string]any{"name": "llama", "project": "search", "task": "embedding", "description": "a base"}, s.created)
	var files []any
	for _, name := range []string{"config.json", "model.safetensors", "sub/tokenizer.json"} {
		require.Equal(t, []byte(name), s.objects[hexSum([]byte(name))])
		files = append(files, map[string]any{"path": name, "size_bytes": float64(len(name)), "sha256": hexSum([]byte(name))})
	}
	require.Equal(t, map[string]any{"files": files, "allow_pickle": false}, s.signed)
	require.Equal(t, map[string]any{"files": files, "base": "", "allow_pickle": false}, s.version)
	require.Contains(t, got.out, "safetensors")
	require.Equal(t, 3, s.puts())
}

func TestImport_continues(t *testing.T) {
	t.Parallel()
	s := newModelServer(t)
	dir := modelFolder(t, "config.json", "model.safetensors")
	s.objects[hexSum([]byte("model.safetensors"))] = nil
	got := s.run("models", "import", "llama", dir)
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, 1, s.puts())
	require.Contains(t, got.err, "1 of the files are uploaded already")
}

func TestImport_knownFiles(t *testing.T) {
	t.Parallel()
	s := newModelServer(t)
	s.status, s.format = http.StatusOK, "peft"
	dir := modelFolder(t, "adapter_config.json", "adapter_model.safetensors")
	got := s.run("models", "import", "llama", dir, "--base", "llama@1")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, "mdl/search/llama@1", s.version["base"])
	require.Contains(t, got.err, "the model has these files already, as mdl/search/llama@1\n")
	require.Contains(t, got.err, "its base stays as it is")
}

func TestImport_base(t *testing.T) {
	t.Parallel()
	dir := modelFolder(t, "adapter_config.json", "adapter_model.safetensors")
	s := newModelServer(t)
	s.format = "peft"
	got := s.run("models", "import", "llama", dir)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.err, "import it with --base MODEL@VERSION")
	got = s.run("models", "import", "llama", dir, "--base", "mdl/search/llama@1")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, "mdl/search/llama@1", s.version["base"])
	require.NotContains(t, got.err, "--base")
	require.Equal(t, 3, s.run("models", "import", "llama", dir, "--base", "llama@champion").code)

	s = newModelServer(t)
	got = s.run("models", "import", "llama", dir, "--base", "llama@1")
	require.Equal(t, 2, got.code, got.err)
	require.Contains(t, got.err, "only adapters have a base")
	require.Zero(t, s.puts())
}

func TestImport_refusals(t *testing.T) {
	t.Parallel()
	folder := modelFolder(t, "config.json", "model.safetensors")
	for name, c := range map[string]struct {
		status     int
		response   string
		exit       int
		text, hint string
	}{
		"pickle": {
			http.StatusForbidden, `{"code":"pickle","detail":"file x.pt is a pickle"}`, 5,
			"file x.pt is a pickle", "an administrator can import it with --allow-pickle",
		},
		"large shard": {
			http.StatusRequestEntityTooLarge, `{"code":"upload_too_large","detail":"file a.safetensors exceeds the limit of 4096 MiB"}`, 1,
			"file a.safetensors exceeds the limit of 4096 MiB", "smaller max_shard_size, such as 2GB, or let an administrator raise SERVICE_MAX_UPLOAD_MB",
		},
		"large GGUF": {
			http.StatusRequestEntityTooLarge, `{"code":"upload_too_large","detail":"file a.gguf exceeds the limit of 4096 MiB"}`, 1,
			"file a.gguf exceeds the limit", "import a smaller quantization, or let an administrator raise SERVICE_MAX_UPLOAD_MB",
		},
		"no weights": {http.StatusBadRequest, `{"code":"model_files","detail":"the files contain no weights"}`, 2, "the files contain no weights", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newModelServer(t)
			s.refuse, s.refuseStatus = c.response, c.status
			got := s.run("models", "import", "llama", folder)
			require.Equal(t, c.exit, got.code, got.err)
			require.Contains(t, got.err, c.text)
			require.Contains(t, got.err, c.hint)
			require.Empty(t, got.out)
		})
	}
}

func TestImport_rejected(t *testing.T) {
	t.Parallel()
	s := newModelServer(t)
	s.response = `{"ref":"mdl/search/llama@2","status":"rejected","status_reason":"the header is cut off"}`
	dir := modelFolder(t, "config.json", "model.safetensors")
	got := s.run("models", "import", "llama", dir)
	require.Equal(t, 2, got.code)
	require.True(t, strings.HasSuffix(got.err, "\nsignalbox: mdl/search/llama@2 was rejected: the header is cut off\n"), got.err)
	require.Empty(t, got.out)
	got = s.run("models", "import", "llama", dir, "-o", "json")
	require.Contains(t, got.err, `"code":"rejected"`)
}

func TestImport_otherModel(t *testing.T) {
	t.Parallel()
	s := newModelServer(t)
	dir := modelFolder(t, "config.json", "model.safetensors")
	for _, flags := range [][]string{{"--task", "embedding"}, {"--description", "other"}} {
		got := s.run(append([]string{"models", "import", "llama", dir}, flags...)...)
		require.Equal(t, 2, got.code, got.err)
		require.Contains(t, got.err, "leave out "+flags[0])
	}
	require.Zero(t, s.puts())
}

// mixed are the files of a folder in which models and trainings leave more than a model.
func mixed() []string {
	return []string{
		".gitattributes", ".cache/x.lock", "README.md", "checkpoint-100/model.safetensors", "config.json", "consolidated.00.pth", "model.safetensors",
		"optimizer.pt", "original/params.json", "pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json", "rng_state_0.pth", "run.py",
		"tokenizer.model", "training_args.bin", "__pycache__/run.pyc", "custom.pt",
	}
}

func TestImport_listFiles(t *testing.T) {
	t.Parallel()
	s := newModelServer(t)
	dir := modelFolder(t, mixed()...)
	// As in the cache of a download, the weights are a link to a file elsewhere.
	elsewhere := modelFolder(t, "blob")
	require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "blob"), filepath.Join(dir, "model.safetensors")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "linked")))
	link := filepath.Join(t.TempDir(), "snapshot")
	require.NoError(t, os.Symlink(dir, link))
	got := s.run("models", "import", "llama", link, "--list-files", "-o", "json")
	require.Equal(t, 0, got.code, got.err)
	require.Empty(t, s.requests)
	var rows []struct {
		Path     string `json:"path"`
		Size     *int   `json:"size_bytes"`
		Excluded string `json:"excluded"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &rows))
	sent, left := map[string]int{}, map[string]string{}
	for _, r := range rows {
		if r.Excluded == "" {
			sent[r.Path] = *r.Size
		} else {
			require.Nil(t, r.Size)
			left[r.Path] = r.Excluded
		}
	}
	require.Equal(t, map[string]int{
		"README.md": 9, "config.json": 11, "model.safetensors": 4, "run.py": 6, "tokenizer.model": 15, "custom.pt": 9,
	}, sent)
	const state, copied = "pickle with the state of a training", "pickle beside the same weights in safetensors"
	require.Equal(t, map[string]string{
		".cache/": "hidden", ".gitattributes": "hidden", "__pycache__/": "compiled Python", "checkpoint-100/": "checkpoint of a training",
		"consolidated.00.pth": copied, "linked": "link to a folder", "optimizer.pt": state, "original/": "weights in their original format",
		"pytorch_model-00001-of-00002.bin": copied, "pytorch_model.bin.index.json": copied, "rng_state_0.pth": state, "training_args.bin": state,
	}, left)

	got = s.run("models", "import", "llama", dir)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.err, "left out: ")
	require.Contains(t, got.err, "and 4 more, which --list-files lists")
	require.Equal(t, []byte("blob"), s.objects[hexSum([]byte("blob"))])
}

func TestImport_picklesAlone(t *testing.T) {
	t.Parallel()
	s := newModelServer(t)
	dir := modelFolder(t, "config.json", "pytorch_model.bin", "training_args.bin")
	got := s.run("models", "import", "llama", dir, "--allow-pickle")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, 3, s.puts(), "no safetensors files contain the weights")
	require.Equal(t, true, s.signed["allow_pickle"])
	require.Equal(t, true, s.version["allow_pickle"])
}

func TestImport_wrongFiles(t *testing.T) {
	t.Parallel()
	many := make([]string, 501)
	for i := range many {
		many[i] = strconv.Itoa(i) + ".json"
	}
	dangling := modelFolder(t, "config.json")
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dangling, "model.safetensors")))
	ggufs := modelFolder(t, "a-q4.gguf", "b-q8.gguf")
	part := filepath.Join(modelFolder(t, "model-00001-of-00002.safetensors"), "model-00001-of-00002.safetensors")
	for name, c := range map[string]struct{ path, text string }{
		"missing":     {filepath.Join(dangling, "other"), "no such file"},
		"empty":       {modelFolder(t, ".hidden"), "there are no files of a model"},
		"broken link": {dangling, "complete the download"},
		"many files":  {modelFolder(t, many...), "has 501 files of a model; a version has at most 500"},
		"GGUF files":  {ggufs, "signalbox models import llama " + filepath.Join(ggufs, "a-q4.gguf")},
		"GGUF parts":  {modelFolder(t, "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"), "llama-gguf-split --merge"},
		"shard":       {part, "name its folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newModelServer(t)
			for _, flags := range [][]string{nil, {"--list-files"}} {
				got := s.run(append([]string{"models", "import", "llama", c.path}, flags...)...)
				require.Equal(t, 2, got.code, got.err)
				require.Contains(t, got.err, c.text)
			}
			require.Empty(t, s.requests)
		})
	}
}
