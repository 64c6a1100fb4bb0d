package blob

import (
	"fmt"
	"strings"
)

// maxFileName is the maximum length in bytes of the name in a Content-Disposition. File systems have the same limit.
const maxFileName = 255

// Disposition returns the Content-Disposition of a download with the given file name. If the name has other characters
// than ASCII letters, digits and some signs, the header has it twice: with underscores, and as in RFC 6266, section 4.3,
// which all current clients prefer.
func Disposition(name string) string {
	name = strings.ToValidUTF8(name, "_")
	name = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == '/' || c == '\\' {
			return '_'
		}
		return c
	}, name)
	if len(name) > maxFileName { // keep the end, which has the extension
		name = strings.ToValidUTF8(name[len(name)-maxFileName:], "")
	}
	plain := strings.Map(func(c rune) rune {
		if c > '~' || strings.ContainsRune(`"%`, c) {
			return '_'
		}
		return c
	}, name)
	header := `attachment; filename="` + plain + `"`
	if plain == name {
		return header
	}
	var escaped strings.Builder
	for _, c := range []byte(name) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$&+-.^_`|~", c) >= 0 {
			escaped.WriteByte(c)
		} else {
			fmt.Fprintf(&escaped, "%%%02X", c)
		}
	}
	return header + `; filename*=UTF-8''` + escaped.String()
}
