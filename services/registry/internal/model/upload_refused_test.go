package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestCreateModelVersion_pickle(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("pickled")
	for _, extra := range [][]string{{"pytorch_model.bin", "x"}, {"tokenizer.json", "\x80\x04\x95\x00\x00"}, {"notes.txt", "PK\x03\x04zip"}} {
		parts := append([]string{"model.safetensors", string(weights(len(extra[1]))), "config.json", baseConfig}, extra...)
		d.put(m, parts...)
		_, err := d.create(ann(t), m, "", false, parts...)
		require.True(t, fault.Is(err, fault.Forbidden), "%s: %v", extra[0], err)
		require.ErrorContains(t, err, extra[0]+" is a pickle")
		_, err = d.create(ann(t), m, "", true, parts...)
		require.ErrorContains(t, err, "for administrators")
		_, err = d.sign(ann(t), m, true, parts...)
		require.ErrorContains(t, err, "for administrators")
		_, err = d.create(admin(t), m, "", false, parts...)
		require.ErrorContains(t, err, "is a pickle", "an administrator allows it by the word only")
		v, err := d.create(admin(t), m, "", true, parts...)
		require.NoError(t, err)
		require.True(t, v.GetPickle())
	}
	_, err := d.sign(ann(t), m, false, "model.safetensors", "x", "config.json", "{}", "training_args.bin", "x")
	require.ErrorContains(t, err, "training_args.bin is a pickle", "a pickle is refused by its name before it is uploaded")
}

func TestSignModelUploads_names(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("names")
	for _, c := range []struct{ name, words string }{
		{"Config.json", "differ only in their case"},
		{".signalbox-model.json", "is reserved"},
		{strings.Repeat("a", 201), "201 bytes"},
		{strings.Repeat("a", 201) + "/b", "201 bytes"},
	} {
		_, err := d.sign(ann(t), m, false, "config.json", baseConfig, "model.safetensors", "x", c.name, "y")
		require.True(t, fault.Is(err, fault.Refused), "%v", err)
		require.ErrorContains(t, err, c.words)
	}
}

// A pickle is found whatever its name is. Weights beside the model are not, although their headers may begin like one.
func TestCreateModelVersion_pickleAsWeights(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("m")
	whole := []string{"config.json", baseConfig, "model.safetensors", string(weights(5))}
	const length = 0x280 // a header of this length begins like a pickle
	text := `{"__metadata__":{"a":"` + strings.Repeat("x", length-25) + `"}}`
	tricky := append([]byte{0x80, 0x02, 0, 0, 0, 0, 0, 0}, text...)
	for name, c := range map[string]struct {
		data string
		bad  bool
	}{
		"optimizer.safetensors": {"\x80\x04\x95\x00\x00\x00\x00\x00\x00", true}, "sub/x.gguf.safetensors": {"\x80\x02}q\x00.\x00\x00", true},
		"consolidated.safetensors": {string(tricky), false},
	} {
		parts := append(append([]string{}, whole...), name, c.data)
		d.put(m, parts...)
		v, err := d.create(ann(t), m, "", false, parts...)
		if c.bad {
			require.ErrorContains(t, err, name+" is a pickle")
			continue
		}
		require.NoError(t, err)
		require.False(t, v.GetPickle())
	}
}
