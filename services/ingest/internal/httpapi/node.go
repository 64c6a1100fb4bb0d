package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// HeaderNode is the header that can carry the name of the machine from which a log is sent. It is not in the body, so that
// a request that is repeated by another version of the agent is the same request.
const HeaderNode = "X-Service-Node"

// maxNode is the maximum length of the name of a machine.
const maxNode = 255

// nodeHeader returns the name of the machine in the header of a request, or nil.
func nodeHeader(h http.Header) (*string, error) {
	values := h.Values(HeaderNode)
	if len(values) == 0 {
		return nil, nil //nolint:nilnil // nil means that there is no such header
	}
	odd := func(c rune) bool { return c < '!' || c > '~' }
	if name := values[0]; len(values) == 1 && name != "" && len(name) <= maxNode && !strings.ContainsFunc(name, odd) {
		return &name, nil
	}
	return nil, fault.InvalidFields(fault.At(fault.TypeValue,
		fmt.Sprintf("Value error, the node must be one name of 1 to %d ASCII characters without spaces", maxNode), "header", "x-service-node"))
}
