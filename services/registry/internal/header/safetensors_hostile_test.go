package header_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/header"
)

// entry describes one tensor.
func entry(name, dtype, shape string, begin, end int) string {
	return fmt.Sprintf(`"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}`, name, dtype, shape, begin, end)
}

func object(entries ...string) string { return "{" + strings.Join(entries, ",") + "}" }

func readSafetensors(data []byte) (header.Facts, error) {
	return header.Safetensors(bytes.NewReader(data), int64(len(data)))
}

// hostile is a header with so many bytes of weights; no words mean that it is good.
type hostile struct {
	header  string
	weights int
	words   string
}

func (h hostile) check(t *testing.T) {
	t.Helper()
	_, err := readSafetensors(safetensors(h.header, h.weights))
	if h.words == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorIs(t, err, header.ErrMalformed)
	require.ErrorContains(t, err, h.words)
}

func TestSafetensorsFillTheFileOneBesideTheOther(t *testing.T) {
	t.Parallel()
	cases := map[string]hostile{
		"two":               {object(entry("a", "F32", "2", 0, 8), entry("b", "F32", "1", 8, 12)), 12, ""},
		"in another order":  {object(entry("b", "F32", "1", 8, 12), entry("a", "F32", "2", 0, 8)), 12, ""},
		"an empty one":      {object(entry("a", "F32", "2", 0, 8), entry("b", "F32", "0", 8, 8)), 8, ""},
		"an empty first":    {object(entry("a", "F32", "0", 0, 0), entry("b", "F32", "2", 0, 8)), 8, ""},
		"none at all":       {"{}", 0, ""},
		"bytes of none":     {"{}", 1, "its tensors have 1 bytes and its header names 0"},
		"the same bytes":    {object(entry("a", "F32", "2", 0, 8), entry("b", "F32", "2", 0, 8)), 8, "overlap"},
		"half of another":   {object(entry("a", "F32", "2", 0, 8), entry("b", "F32", "2", 4, 12)), 12, "overlap"},
		"within another":    {object(entry("a", "F32", "4", 0, 16), entry("b", "F32", "1", 4, 8)), 16, "overlap"},
		"a gap":             {object(entry("a", "F32", "2", 0, 8), entry("b", "F32", "1", 12, 16)), 16, "gap at byte 8"},
		"a gap at first":    {object(entry("a", "F32", "1", 4, 8)), 8, "gap at byte 0"},
		"an empty one past": {object(entry("a", "F32", "1", 0, 4), entry("b", "F32", "0", 9, 9)), 9, "gap at byte 4"},
		"the end missing":   {object(entry("a", "F32", "2", 0, 8)), 7, "its tensors have 7 bytes and its header names 8"},
		"more than named":   {object(entry("a", "F32", "2", 0, 8)), 9, "its tensors have 9 bytes and its header names 8"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { t.Parallel(); c.check(t) })
	}
}

func TestSafetensorsDescribeEachTensorOnceAndWhole(t *testing.T) {
	t.Parallel()
	cases := map[string]hostile{
		"twice":              {object(entry("a", "F32", "1", 0, 4), entry("a", "F32", "1", 4, 8)), 8, `"a" twice`},
		"twice, escaped":     {object(entry("a", "F32", "1", 0, 4), entry(`\u0061`, "F32", "1", 4, 8)), 8, `"a" twice`},
		"metadata twice":     {`{"__metadata__":{},"__metadata__":{}}`, 0, "twice"},
		"no type":            {`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4, "not described"},
		"no shape":           {`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4, "not described"},
		"no offsets":         {`{"a":{"dtype":"F32","shape":[0]}}`, 0, "not described"},
		"one offset":         {`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0]}}`, 0, "not described"},
		"three offsets":      {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, 4, "not described"},
		"nothing":            {`{"a":{}}`, 0, "not described"},
		"null":               {`{"a":null}`, 0, "not described"},
		"a fraction":         {object(entry("a", "F32", "1.5", 0, 4)), 4, "not described"},
		"past 64 bits":       {object(entry("a", "F32", "99999999999999999999", 0, 4)), 4, "not described"},
		"a long type":        {object(entry("a", strings.Repeat("F", 33), "1", 0, 4)), 4, "not described"},
		"part of an element": {object(entry("a", "F32", "2", 0, 9)), 9, "bytes of its shape"},
		"too few":            {object(entry("a", "F64", "2", 0, 8)), 8, "bytes of its shape"},
		"dimensions":         {object(entry("a", "F32", "1,1,1,1,1,1,1,1", 0, 4)), 4, ""},
		"more dimensions":    {object(entry("a", "F32", "1,1,1,1,1,1,1,1,1", 0, 4)), 4, "impossible size"},
		"of no known width":  {object(entry("a", "F4", "64", 0, 32)), 32, ""},
		"elements add up":    {object(entry("a", "F4", "4611686018427387904", 0, 0), entry("b", "F4", "4611686018427387904", 0, 0)), 0, "more elements"},
		"nothing times much": {object(entry("a", "F32", "0,4294967296,4294967296", 0, 0)), 0, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { t.Parallel(); c.check(t) })
	}
}

func TestEveryWidthOfSafetensorsIsKnown(t *testing.T) {
	t.Parallel()
	widths := map[string]int{
		"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
		"I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
	}
	for dtype, width := range widths {
		facts, err := readSafetensors(safetensors(object(entry("a", dtype, "3,5", 0, 15*width)), 15*width))
		require.NoError(t, err, dtype)
		require.Equal(t, header.Facts{Parameters: 15, Tensors: 1, Dtype: strings.ToLower(dtype)}, facts)
		_, err = readSafetensors(safetensors(object(entry("a", dtype, "3,5", 0, 15*width+1)), 15*width+1))
		require.ErrorIs(t, err, header.ErrMalformed, dtype)
	}
}

func TestASafetensorsHeaderIsOneJSONObject(t *testing.T) {
	t.Parallel()
	deep := func(depth int) string {
		return `{"__metadata__":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}"
	}
	cases := map[string]hostile{
		"padded":           {object(entry("a", "F32", "1", 0, 4)) + "   \n", 4, ""},
		"two objects":      {"{}{}", 0, "no JSON object"},
		"text after it":    {"{} x", 0, "no JSON object"},
		"an array":         {`[{"a":1}]`, 0, "no JSON object"},
		"a text":           {`"{}"`, 0, "no JSON object"},
		"null":             {`null`, 0, "no JSON object"},
		"not closed":       {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`, 4, "no JSON object"},
		"closed wrongly":   {`{"__metadata__":{}]`, 0, "no JSON object"},
		"no name":          {`{1:{}}`, 0, "no JSON object"},
		"no value":         {`{"a"}`, 0, "no JSON object"},
		"a comma too many": {`{"__metadata__":{},}`, 0, "no JSON object"},
		"no bytes of JSON": {"\xff\xfe{}", 0, "no JSON object"},
		"deep":             {deep(1000), 0, ""},
		"too deep":         {deep(1 << 20), 0, "no JSON object"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { t.Parallel(); c.check(t) })
	}
}

func TestASafetensorsLengthThatLies(t *testing.T) {
	t.Parallel()
	good := object(entry("a", "F32", "1", 0, 4))
	for name, n := range map[string]uint64{
		"none": 0, "one": 1, "a byte short": uint64(len(good) - 1), "a byte long": uint64(len(good) + 1), "the whole file": uint64(len(good) + 4),
		"past the file": uint64(len(good) + 5), "past the bound": 64 << 20, "past an int64": 1 << 63,
	} {
		data := binary.LittleEndian.AppendUint64(nil, n)
		data = append(append(data, good...), make([]byte, 4)...)
		_, err := readSafetensors(data)
		require.ErrorIs(t, err, header.ErrMalformed, name)
	}
}
