package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The formats of weights.
const (
	FormatGGUF        = "gguf"
	FormatSafetensors = "safetensors"
	FormatPEFT        = "peft"
)

// The names of files with a meaning in the folders of models.
const (
	configName        = "config.json"
	adapterConfigName = "adapter_config.json"
	adapterName       = "adapter_model.safetensors"
	wholeName         = "model.safetensors"
	indexName         = "model.safetensors.index.json"
	templateName      = "chat_template.jinja"
	tokenizerName     = "tokenizer_config.json" //nolint:gosec // the name of a file, not a credential
	ggufSuffix        = ".gguf"
	weightsSuffix     = ".safetensors"
)

var splitGGUF = regexp.MustCompile(`-\d{5}-of-\d{5}\.gguf$`)

// Format returns the format of a version with the given files, whose paths are relative to its folder. The error names
// what is missing, and may be shown to users.
func Format(paths []string) (string, error) {
	has := func(name string) bool { return slices.Contains(paths, name) }
	count := func(suffix string) (n int) {
		for _, p := range paths {
			if strings.HasSuffix(p, suffix) {
				n++
			}
		}
		return n
	}
	weights, ggufs := count(weightsSuffix), count(ggufSuffix)
	switch {
	case ggufs > 0 && slices.ContainsFunc(paths, splitGGUF.MatchString):
		return "", errors.New("the GGUF file is split; merge its parts with llama-gguf-split --merge")
	case ggufs > 0 && weights > 0:
		return "", errors.New("the files contain both GGUF and safetensors weights; create a version of each")
	case ggufs > 1:
		return "", fmt.Errorf("the files contain %d GGUF files; create a version of each", ggufs)
	case ggufs == 1:
		return FormatGGUF, nil
	case has(adapterConfigName) && has(adapterName):
		return FormatPEFT, nil
	case has(adapterConfigName):
		return "", fmt.Errorf("the adapter has no %s", adapterName)
	case weights == 1 && len(paths) == 1, weights > 0 && has(configName):
		return FormatSafetensors, nil
	case weights > 0:
		return "", fmt.Errorf("the folder has safetensors files, but no %s beside them", configName)
	}
	return "", fmt.Errorf("the files contain no weights: a model is one GGUF or safetensors file, a folder with %s and safetensors files, "+
		"or a folder with %s and %s", configName, adapterConfigName, adapterName)
}

// pickleName matches the names of files that libraries load with pickle.
var pickleName = regexp.MustCompile(`(?i)\.(bin|pt|pth|pkl|pickle|dill|ckpt|joblib|nemo|npy|npz)(\.(gz|bz2|xz|zst))?$`)

// IsPickle reports whether a file is a pickle, or may contain one, by its path or its first bytes. Head may be empty.
func IsPickle(name string, head []byte) bool {
	return pickleName.MatchString(name) || picklePrefix(head)
}

// PickleHead is the number of first bytes of a file by which IsPickle recognizes a pickle.
const PickleHead = 4

// picklePrefix reports whether a file begins like a pickle of protocol 2 to 5, or like a zip file, in which torch.save
// writes pickles.
func picklePrefix(head []byte) bool {
	const protocol, lowest, highest = 0x80, 2, 5
	return len(head) >= 2 && head[0] == protocol && head[1] >= lowest && head[1] <= highest || bytes.HasPrefix(head, []byte("PK\x03\x04"))
}
