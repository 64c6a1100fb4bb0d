package header_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/header"
)

// readGGUF reads a file that is as long as it is.
func readGGUF(g *gguf) (header.Facts, error) {
	return header.GGUF(bytes.NewReader(g.Bytes()), int64(g.Len()))
}

// tensor adds an entry of one dimension.
func (g *gguf) tensor(name string, elements uint64, kind uint32, offset uint64) *gguf {
	return g.text(name).le(uint32(1), elements, kind, offset)
}

// weights adds bytes after the header.
func (g *gguf) weights(n int) *gguf {
	g.Write(make([]byte, n))
	return g
}

// kilobyte makes a file no shorter than that, so that only its words can be wrong.
func (g *gguf) kilobyte() *gguf { return g.weights(1024) }

func TestGGUFNamesNothingTwice(t *testing.T) {
	t.Parallel()
	value := func(g *gguf, key string, n uint32) *gguf { return g.text(key).le(uint32(4), n) }
	cases := map[string]struct {
		file  *gguf
		words string // empty: it is good
	}{
		"two values":            {value(value(start(3, 0, 2), "a", 1), "b", 1), ""},
		"a value twice":         {value(value(start(3, 0, 2), "a.context_length", 1), "a.context_length", 2), `"a.context_length" twice`},
		"of two types":          {value(start(3, 0, 2), "a", 1).text("a").le(uint32(8)).text("x"), `"a" twice`},
		"no name, twice":        {value(value(start(3, 0, 2), "", 1), "", 1), "twice"},
		"two tensors":           {start(3, 2, 0).tensor("a", 1, 0, 0).tensor("b", 1, 0, 4).kilobyte(), ""},
		"a tensor twice":        {start(3, 2, 0).tensor("a", 1, 0, 0).tensor("a", 1, 0, 4).kilobyte(), `"a" twice`},
		"a tensor like a value": {value(start(3, 1, 1), "a", 1).tensor("a", 1, 0, 0).kilobyte(), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readGGUF(c.file)
			if c.words == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, header.ErrMalformed)
			require.ErrorContains(t, err, c.words)
		})
	}
}

func TestGGUFHasTheBytesOfItsTensors(t *testing.T) {
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
		"behind an offset":             {one(8, 0, 32, 64), true},
		"past the end by its offset":   {one(8, 0, 33, 64), false},
		"at the end, empty":            {one(0, 0, 32, 32), true},
		"an offset past the end":       {one(0, 0, 1<<20, 32), false},
		"a type that nobody knows":     {one(1<<40, 99, 0, 0), true},
		"more bytes than there can be": {one(1<<62, 0, 0, 64), false},
		"more bytes than a count can":  {one(1<<62, 8, 0, 64), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readGGUF(c.file)
			if c.good {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, header.ErrMalformed)
		})
	}
}

func TestGGUFSaysWhichBytesAreMissing(t *testing.T) {
	t.Parallel()
	_, err := readGGUF(start(3, 2, 0).tensor("a", 4, 0, 0).tensor("b", 4, 0, 32).weights(40))
	require.ErrorContains(t, err, "its tensors need 48 bytes and 40 follow its header")
}

func TestGGUFNumbersThatAreNoSizesAreNoFacts(t *testing.T) {
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
		"too much uint64": {10, uint64(math.MaxUint64), 0},
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

func TestGGUFTextsAreKeptUpToTheirBound(t *testing.T) {
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
	require.Empty(t, facts.ChatTemplateSHA256, "what was not read has no digest")
	for name, want := range map[string]string{long[:256]: long[:256], long[:257]: ""} {
		facts, err = readGGUF(text("general.name", name))
		require.NoError(t, err)
		require.Equal(t, want, facts.Name, "what is shown is short")
	}
	facts, err = readGGUF(text("general.name", "a\xffb"))
	require.NoError(t, err)
	require.Equal(t, "a�b", facts.Name, "it can be written as JSON")
	facts, err = readGGUF(text(strings.Repeat("k", 1<<16-1), "x"))
	require.NoError(t, err)
	require.Empty(t, facts.Name)
	_, err = readGGUF(text(strings.Repeat("k", 1<<16), "x"))
	require.ErrorIs(t, err, header.ErrMalformed, "a name of more than the format allows")
	_, err = readGGUF(start(3, 0, 1).text(strings.Repeat("k", 60000)).le(uint32(99)))
	require.ErrorContains(t, err, "unknown type 99")
	require.Less(t, len(err.Error()), 300, "a long name is not repeated")
}

func TestGGUFBoundsWhatItCounts(t *testing.T) {
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
		"as deep as can be":    {nested(3), true},
		"deeper":               {nested(4), false},
		"as many dimensions":   {dims(8), true},
		"more dimensions":      {dims(9), false},
		"no dimension":         {start(3, 1, 0).text("t").le(uint32(0), uint32(0), uint64(0)).weights(4), true},
		"version 2":            {start(2, 0, 0), true},
		"version 4":            {start(4, 0, 0), false},
		"the other byte order": {start(3<<24, 0, 0), false},
		"most tensors, none":   {start(3, 1<<20, 0), false},
		"too many tensors":     {start(3, 1<<20+1, 0), false},
		"too many values":      {start(3, 0, 1<<16+1), false},
		"elements add up":      {start(3, 2, 0).tensor("a", 1<<62, 99, 0).tensor("b", 1<<62, 99, 0), false},
		"texts in an array":    {start(3, 0, 1).text("k").le(uint32(9), uint32(8), uint64(1)).le(uint64(1 << 50)), false},
		"an empty array":       {start(3, 0, 1).text("tokenizer.ggml.tokens").le(uint32(9), uint32(8), uint64(0)), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readGGUF(c.file)
			if c.good {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, header.ErrMalformed)
		})
	}
}

func TestAHeaderIsNeverLongerThanItsBound(t *testing.T) {
	t.Parallel()
	// The file claims a text of 100 MiB and to be long enough for it: not a byte of it is read.
	g := start(3, 0, 1).text("k").le(uint32(8), uint64(100<<20))
	read := bytes.NewReader(append(g.Bytes(), make([]byte, 8192)...))
	_, err := header.GGUF(read, 1<<40)
	require.ErrorIs(t, err, header.ErrMalformed)
	require.ErrorContains(t, err, "64 MiB")
	require.NotZero(t, read.Len())
}

func TestASizeThatIsNoneIsMalformed(t *testing.T) {
	t.Parallel()
	for name, read := range readers() {
		for _, size := range []int64{0, -1, math.MinInt64} {
			_, err := read(bytes.NewReader(model().Bytes()), size)
			require.ErrorIs(t, err, header.ErrMalformed, "%s of %d bytes", name, size)
		}
	}
}
