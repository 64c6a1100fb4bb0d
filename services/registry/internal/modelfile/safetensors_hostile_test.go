package modelfile_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/modelfile"
)

// entry returns the header entry of one tensor.
func entry(name, dtype, shape string, begin, end int) string {
	return fmt.Sprintf(`"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}`, name, dtype, shape, begin, end)
}

func object(entries ...string) string { return "{" + strings.Join(entries, ",") + "}" }

func readSafetensors(data []byte) (modelfile.Facts, error) {
	return modelfile.Safetensors(bytes.NewReader(data), int64(len(data)))
}

// hostile is a header followed by a number of bytes of weights. The field words is a part of the expected error, or ""
// if the file is valid.
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
	require.ErrorIs(t, err, modelfile.ErrMalformed)
	require.ErrorContains(t, err, h.words)
}

func TestSafetensors_tensorsFillFile(t *testing.T) {
	t.Parallel()
	cases := map[string]hostile{
		"two":             {object(entry("a", "F32", "2", 0, 8), entry("b", "F32", "1", 8, 12)), 12, ""},
		"other order":     {object(entry("b", "F32", "1", 8, 12), entry("a", "F32", "2", 0, 8)), 12, ""},
		"empty last":      {object(entry("a", "F32", "2", 0, 8), entry("b", "F32", "0", 8, 8)), 8, ""},
		"empty first":     {object(entry("a", "F32", "0", 0, 0), entry("b", "F32", "2", 0, 8)), 8, ""},
		"no tensors":      {"{}", 0, ""},
		"unclaimed byte":  {"{}", 1, "the file has 1 bytes of tensor data; the header describes 0"},
		"same bytes":      {object(entry("a", "F32", "2", 0, 8), entry("b", "F32", "2", 0, 8)), 8, "overlap"},
		"partial overlap": {object(entry("a", "F32", "2", 0, 8), entry("b", "F32", "2", 4, 12)), 12, "overlap"},
		"within another":  {object(entry("a", "F32", "4", 0, 16), entry("b", "F32", "1", 4, 8)), 16, "overlap"},
		"gap":             {object(entry("a", "F32", "2", 0, 8), entry("b", "F32", "1", 12, 16)), 16, "gap at byte 8"},
		"gap at start":    {object(entry("a", "F32", "1", 4, 8)), 8, "gap at byte 0"},
		"empty past end":  {object(entry("a", "F32", "1", 0, 4), entry("b", "F32", "0", 9, 9)), 9, "gap at byte 4"},
		"end missing":     {object(entry("a", "F32", "2", 0, 8)), 7, "the file has 7 of 8 bytes of tensor data: it is incomplete"},
		"trailing byte":   {object(entry("a", "F32", "2", 0, 8)), 9, "the file has 9 bytes of tensor data; the header describes 8"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { t.Parallel(); c.check(t) })
	}
}

func TestSafetensors_tensorDescriptions(t *testing.T) {
	t.Parallel()
	cases := map[string]hostile{
		"duplicate":            {object(entry("a", "F32", "1", 0, 4), entry("a", "F32", "1", 4, 8)), 8, `duplicate tensor "a"`},
		"escaped duplicate":    {object(entry("a", "F32", "1", 0, 4), entry(`\u0061`, "F32", "1", 4, 8)), 8, `duplicate tensor "a"`},
		"duplicate metadata":   {`{"__metadata__":{},"__metadata__":{}}`, 0, "duplicate tensor"},
		"no type":              {`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4, "no valid description"},
		"no shape":             {`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4, "no valid description"},
		"no offsets":           {`{"a":{"dtype":"F32","shape":[0]}}`, 0, "no valid description"},
		"one offset":           {`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0]}}`, 0, "no valid description"},
		"three offsets":        {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, 4, "no valid description"},
		"empty":                {`{"a":{}}`, 0, "no valid description"},
		"null":                 {`{"a":null}`, 0, "no valid description"},
		"fraction":             {object(entry("a", "F32", "1.5", 0, 4)), 4, "no valid description"},
		"past 64 bits":         {object(entry("a", "F32", "99999999999999999999", 0, 4)), 4, "no valid description"},
		"long type":            {object(entry("a", strings.Repeat("F", 33), "1", 0, 4)), 4, "no valid description"},
		"part of an element":   {object(entry("a", "F32", "2", 0, 9)), 9, "does not match its shape"},
		"too few bytes":        {object(entry("a", "F64", "2", 0, 8)), 8, "does not match its shape"},
		"dimensions at bound":  {object(entry("a", "F32", "1,1,1,1,1,1,1,1", 0, 4)), 4, ""},
		"too many dimensions":  {object(entry("a", "F32", "1,1,1,1,1,1,1,1,1", 0, 4)), 4, "impossible size"},
		"unknown width":        {object(entry("a", "F4", "64", 0, 32)), 32, ""},
		"element sum overflow": {object(entry("a", "F4", "4611686018427387904", 0, 0), entry("b", "F4", "4611686018427387904", 0, 0)), 0, "too many elements"},
		"zero times large":     {object(entry("a", "F32", "0,4294967296,4294967296", 0, 0)), 0, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { t.Parallel(); c.check(t) })
	}
}

func TestSafetensors_dtypeWidths(t *testing.T) {
	t.Parallel()
	widths := map[string]int{
		"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
		"I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
	}
	for dtype, width := range widths {
		facts, err := readSafetensors(safetensors(object(entry("a", dtype, "3,5", 0, 15*width)), 15*width))
		require.NoError(t, err, dtype)
		require.Equal(t, modelfile.Facts{Parameters: 15, Tensors: 1, Dtype: strings.ToLower(dtype)}, facts)
		_, err = readSafetensors(safetensors(object(entry("a", dtype, "3,5", 0, 15*width+1)), 15*width+1))
		require.ErrorIs(t, err, modelfile.ErrMalformed, dtype)
	}
}

func TestSafetensors_headerIsOneJSONObject(t *testing.T) {
	t.Parallel()
	deep := func(depth int) string {
		return `{"__metadata__":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}"
	}
	cases := map[string]hostile{
		"padded":         {object(entry("a", "F32", "1", 0, 4)) + "   \n", 4, ""},
		"two objects":    {"{}{}", 0, "not a JSON object"},
		"trailing text":  {"{} x", 0, "not a JSON object"},
		"array":          {`[{"a":1}]`, 0, "not a JSON object"},
		"string":         {`"{}"`, 0, "not a JSON object"},
		"null":           {`null`, 0, "not a JSON object"},
		"not closed":     {`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`, 4, "not a JSON object"},
		"wrong bracket":  {`{"__metadata__":{}]`, 0, "not a JSON object"},
		"no name":        {`{1:{}}`, 0, "not a JSON object"},
		"no value":       {`{"a"}`, 0, "not a JSON object"},
		"trailing comma": {`{"__metadata__":{},}`, 0, "not a JSON object"},
		"invalid bytes":  {"\xff\xfe{}", 0, "not a JSON object"},
		"deep":           {deep(1000), 0, ""},
		"too deep":       {deep(1 << 20), 0, "not a JSON object"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { t.Parallel(); c.check(t) })
	}
}

func TestSafetensors_falseHeaderLength(t *testing.T) {
	t.Parallel()
	good := object(entry("a", "F32", "1", 0, 4))
	for name, n := range map[string]uint64{
		"zero": 0, "one": 1, "one byte short": uint64(len(good) - 1), "one byte long": uint64(len(good) + 1), "whole file": uint64(len(good) + 4),
		"past the file": uint64(len(good) + 5), "past the bound": 64 << 20, "past an int64": 1 << 63,
	} {
		data := binary.LittleEndian.AppendUint64(nil, n)
		data = append(append(data, good...), make([]byte, 4)...)
		_, err := readSafetensors(data)
		require.ErrorIs(t, err, modelfile.ErrMalformed, name)
	}
}
