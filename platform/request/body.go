package request

import (
	"mime"
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const jsonType = "application/json"

// PlainJSON returns an error unless the headers describe an unencoded JSON body in UTF-8. The generated handlers
// would treat the fields of a form as query parameters, and a compressed body may exceed every limit once it is
// unpacked. A body without a Content-Type is treated as JSON.
func PlainJSON(h http.Header) *fault.Error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return fault.InvalidFields(fault.At(fault.TypeLiteral, "Input should be 'identity'", "header", "content-encoding"))
	}
	given := h.Values("Content-Type")
	if len(given) == 0 {
		return nil
	}
	typ, params, err := mime.ParseMediaType(given[0])
	charset, named := params["charset"]
	if err != nil || len(given) > 1 || typ != jsonType || named && !strings.EqualFold(charset, "utf-8") {
		return fault.InvalidFields(fault.At(fault.TypeLiteral, "Input should be 'application/json'", "header", "content-type"))
	}
	return nil
}
