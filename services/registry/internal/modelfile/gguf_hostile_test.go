package modelfile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/modelfile"
)

// readGGUF reads a file and states its true size.
func readGGUF(g *gguf) (modelfile.Facts, error) {
	return modelfile.GGUF(bytes.NewReader(g.Bytes()), int64(g.Len()))
}

// tensor adds the entry of a tensor with one dimension.
func (g *gguf) tensor(name string, elements uint64, kind uint32, offset uint64) *gguf {
	return g.text(name).le(uint32(1), elements, kind, offset)
}

// weights adds bytes after the header.
func (g *gguf) weights(n int) *gguf {
	g.Write(make([]byte, n))
	return g
}

// kilobyte appends 1024 bytes of weights, so that the file is never too short for its tensors.
func (g *gguf) kilobyte() *gguf { return g.weights(1024) }

func TestGGUF_rejectsDuplicateNames(t *testing.T) {
	t.Parallel()
	value := func(g *gguf, key string, n uint32) *gguf { return g.text(key).le(uint32(4), n) }
	cases := map[string]struct {
		file  *gguf
		words string // part of the error, "" if the file is valid
	}{
		"two values":            {value(value(start(3, 0, 2), "a", 1), "b", 1), ""},
		"duplicate value":       {value(value(start(3, 0, 2), "a.context_length", 1), "a.context_length", 2), `duplicate name "a.context_length"`},
		"with two types":        {value(start(3, 0, 2), "a", 1).text("a").le(uint32(8)).text("x"), `duplicate name "a"`},
		"duplicate empty name":  {value(value(start(3, 0, 2), "", 1), "", 1), "duplicate name"},
		"two tensors":           {start(3, 2, 0).tensor("a", 1, 0, 0).tensor("b", 1, 0, 4).kilobyte(), ""},
		"duplicate tensor":      {start(3, 2, 0).tensor("a", 1, 0, 0).tensor("a", 1, 0, 4).kilobyte(), `duplicate name "a"`},
		"tensor named as value": {value(start(3, 1, 1), "a", 1).tensor("a", 1, 0, 0).kilobyte(), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readGGUF(c.file)
			if c.words == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, modelfile.ErrMalformed)
			require.ErrorContains(t, err, c.words)
		})
	}
}

func TestGGUF_tensorSizes(t *testing.T) {
	t.Parallel()
	one := func(elements uint64, kind uint32, offset uint64, weights int) *gguf {
		return start(3, 1, 0).tensor("a", elements, kind, offset).weights(weights)
	}
	cases := map[string]struct {
		file *gguf
		good bool
	}{
		"all of f32":                   {one(8, 0, 0, 32), true},
		"one byte less of f32":         {one(8, 0, 0, 31), false},
		"all of f16":                   {one(8, 1, 0, 16), true},
		"one byte less of f16":         {one(8, 1, 0, 15), false},
		"all of q4_0":                  {one(64, 2, 0, 36), true},
		"one byte less of q4_0":        {one(64, 2, 0, 35), false},
		"one byte less of q4_1":        {one(32, 3, 0, 19), false},
		"one byte less of q5_0":        {one(32, 6, 0, 21), false},
		"one byte less of q5_1":        {one(32, 7, 0, 23), false},
		"all of q8_0":                  {one(32, 8, 0, 34), true},
		"one byte less of q8_0":        {one(32, 8, 0, 33), false},
		"one byte less of q2_k":        {one(256, 10, 0, 83), false},
		"one byte less of q3_k":        {one(256, 11, 0, 109), false},
		"one byte less of q4_k":        {one(256, 12, 0, 143), false},
		"one byte less of q5_k":        {one(256, 13, 0, 175), false},
		"all of q6_k":                  {one(256, 14, 0, 210), true},
		"one byte less of q6_k":        {one(256, 14, 0, 209), false},
		"one byte less of bf16":        {one(8, 30, 0, 15), false},
		"with an offset":               {one(8, 0, 32, 64), true},
		"offset moves it past the end": {one(8, 0, 33, 64), false},
		"empty at the end":             {one(0, 0, 32, 32), true},
		"offset past the end":          {one(0, 0, 1<<20, 32), false},
		"unknown type":                 {one(1<<40, 99, 0, 0), true},
		"more bytes than any file":     {one(1<<62, 0, 0, 64), false},
		"byte count overflows":         {one(1<<62, 8, 0, 64), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readGGUF(c.file)
			if c.good {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, modelfile.ErrMalformed)
		})
	}
}

func TestGGUF_errorReportsMissingBytes(t *testing.T) {
	t.Parallel()
	_, err := readGGUF(start(3, 2, 0).tensor("a", 4, 0, 0).tensor("b", 4, 0, 32).weights(40))
	require.ErrorContains(t, err, "the tensors need 48 bytes, but 40 follow the header")
}

func TestGGUF_ignoresNumbersThatAreNotSizes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		kind  uint32
		value any
		want  int64
	}{
		"uint8":           {0, uint8(200), 200},
		"int8":            {1, int8(100), 100},
		"negative int8":   {1, int8(-1), 0},
		"uint16":          {2, uint16(40000), 40000},
		"int16":           {3, int16(128), 128},
		"negative int16":  {3, int16(-128), 0},
		"uint32":          {4, uint32(1 << 31), 1 << 31},
		"int32":           {5, int32(4096), 4096},
		"negative int32":  {5, int32(-1), 0},
		"float32":         {6, float32(4096), 0},
		"uint64":          {10, uint64(1 << 40), 1 << 40},
		"uint64 overflow": {10, uint64(math.MaxUint64), 0},
		"int64":           {11, int64(7), 7},
		"negative int64":  {11, int64(-7), 0},
		"float64":         {12, float64(7), 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts, err := readGGUF(start(3, 0, 1).text("x.context_length").le(c.kind, c.value))
			require.NoError(t, err)
			require.Equal(t, c.want, facts.ContextLength)
		})
	}
}

func TestGGUF_textLimits(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	text := func(key, value string) *gguf { return start(3, 0, 1).text(key).le(uint32(8)).text(value) }
	long := strings.Repeat("x", most)
	facts, err := readGGUF(text("tokenizer.chat_template", long))
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(long))
	require.Equal(t, hex.EncodeToString(sum[:]), facts.ChatTemplateSHA256)
	facts, err = readGGUF(text("tokenizer.chat_template", long+"x"))
	require.NoError(t, err)
	require.Empty(t, facts.ChatTemplateSHA256, "a skipped template has no digest")
	for name, want := range map[string]string{long[:256]: long[:256], long[:257]: ""} {
		facts, err = readGGUF(text("general.name", name))
		require.NoError(t, err)
		require.Equal(t, want, facts.Name, "overlong names are dropped")
	}
	facts, err = readGGUF(text("general.name", "a\xffb"))
	require.NoError(t, err)
	require.Equal(t, "a�b", facts.Name, "the name is valid UTF-8")
	facts, err = readGGUF(text(strings.Repeat("k", 1<<16-1), "x"))
	require.NoError(t, err)
	require.Empty(t, facts.Name)
	_, err = readGGUF(text(strings.Repeat("k", 1<<16), "x"))
	require.ErrorIs(t, err, modelfile.ErrMalformed, "the name is longer than the format allows")
	_, err = readGGUF(start(3, 0, 1).text(strings.Repeat("k", 60000)).le(uint32(99)))
	require.ErrorContains(t, err, "unknown type 99")
	require.Less(t, len(err.Error()), 300, "the error truncates a long name")
}

func TestGGUF_countLimits(t *testing.T) {
	t.Parallel()
	nested := func(depth int) *gguf {
		g := start(3, 0, 1).text("k").le(uint32(9))
		for range depth {
			g.le(uint32(9), uint64(1))
		}
		return g.le(uint32(0), uint64(1), uint8(7))
	}
	dims := func(n int) *gguf {
		g := start(3, 1, 0).text("t").le(uint32(n))
		for range n {
			g.le(uint64(1))
		}
		return g.le(uint32(0), uint64(0)).weights(4)
	}
	cases := map[string]struct {
		file *gguf
		good bool
	}{
		"nesting at bound":     {nested(3), true},
		"nested too deep":      {nested(4), false},
		"dimensions at bound":  {dims(8), true},
		"too many dimensions":  {dims(9), false},
		"no dimensions":        {start(3, 1, 0).text("t").le(uint32(0), uint32(0), uint64(0)).weights(4), true},
		"version 2":            {start(2, 0, 0), true},
		"version 4":            {start(4, 0, 0), false},
		"big endian":           {start(3<<24, 0, 0), false},
		"tensors missing":      {start(3, 1<<20, 0), false},
		"too many tensors":     {start(3, 1<<20+1, 0), false},
		"too many values":      {start(3, 0, 1<<16+1), false},
		"element sum overflow": {start(3, 2, 0).tensor("a", 1<<62, 99, 0).tensor("b", 1<<62, 99, 0), false},
		"long string in array": {start(3, 0, 1).text("k").le(uint32(9), uint32(8), uint64(1)).le(uint64(1 << 50)), false},
		"empty array":          {start(3, 0, 1).text("tokenizer.ggml.tokens").le(uint32(9), uint32(8), uint64(0)), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readGGUF(c.file)
			if c.good {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, modelfile.ErrMalformed)
		})
	}
}

func TestGGUF_headerSizeLimit(t *testing.T) {
	t.Parallel()
	// The file claims a string of 100 MiB and a size that is large enough for it. No byte of the string is read.
	g := start(3, 0, 1).text("k").le(uint32(8), uint64(100<<20))
	read := bytes.NewReader(append(g.Bytes(), make([]byte, 8192)...))
	_, err := modelfile.GGUF(read, 1<<40)
	require.ErrorIs(t, err, modelfile.ErrMalformed)
	require.ErrorContains(t, err, "64 MiB")
	require.NotZero(t, read.Len())
}

func TestReaders_nonPositiveSizeIsMalformed(t *testing.T) {
	t.Parallel()
	for name, read := range readers() {
		for _, size := range []int64{0, -1, math.MinInt64} {
			_, err := read(bytes.NewReader(model().Bytes()), size)
			require.ErrorIs(t, err, modelfile.ErrMalformed, "%s of %d bytes", name, size)
		}
	}
}
