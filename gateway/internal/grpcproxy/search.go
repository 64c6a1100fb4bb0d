package grpcproxy

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// SearchLimit is how long a service may take to search one kind of objects.
const SearchLimit = 2 * time.Second

// Search is a connection to SearchService that calls the services of all kinds of objects and merges their responses.
type Search struct {
	// Auth, Jobs and Registry are the connections to the services that implement SearchService.
	Auth, Jobs, Registry grpc.ClientConnInterface
	// Limit replaces SearchLimit if it is not 0.
	Limit time.Duration
}

// kinds lists the kinds of objects. Results with the same score have this order.
func kinds() []string {
	return []string{"project", "job", "run", "dataset", "model", "deployment", "environment", "rubric", "team", "node", "fleet", "user"}
}

// service returns the connection to the service that searches a kind.
func (s *Search) service(kind string) grpc.ClientConnInterface {
	switch kind {
	case "project", "team", "user":
		return s.Auth
	case "job", "run", "node", "fleet":
		return s.Jobs
	default:
		return s.Registry
	}
}

// Invoke implements grpc.ClientConnInterface.
func (s *Search) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	in, isRequest := args.(*searchv1.SearchRequest)
	out, isResponse := reply.(proto.Message)
	if !isRequest || !isResponse || method != searchv1.SearchService_Search_FullMethodName {
		return fault.New(fault.Unconfigured, "unknown_method", "no such method")
	}
	wanted := in.GetKinds()
	if len(wanted) == 0 {
		wanted = kinds()
	}
	if refused(in) {
		return s.Auth.Invoke(ctx, method, args, reply, options...)
	}
	found, err := s.search(ctx, in, wanted)
	if err != nil {
		return err
	}
	proto.Reset(out)
	proto.Merge(out, found)
	return nil
}

// refused reports whether the services refuse the request. One service then returns the reason.
func refused(in *searchv1.SearchRequest) bool {
	length := utf8.RuneCountInString(in.GetQ())
	for i, k := range in.GetKinds() {
		if !slices.Contains(kinds(), k) || slices.Contains(in.GetKinds()[:i], k) {
			return true
		}
	}
	return length < 2 || length > 200 || in.GetLimit() < 0 || in.GetLimit() > 50
}
