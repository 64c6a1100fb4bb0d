package rpc

import (
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// pushback is the trailer of a server's response that keeps grpc from retrying the call.
const pushback = "grpc-retry-pushback-ms"

type methodName struct {
	Service string `json:"service"`
	Method  string `json:"method"`
}

type retryPolicy struct {
	MaxAttempts          int      `json:"maxAttempts"`
	InitialBackoff       string   `json:"initialBackoff"`
	MaxBackoff           string   `json:"maxBackoff"`
	BackoffMultiplier    float64  `json:"backoffMultiplier"`
	RetryableStatusCodes []string `json:"retryableStatusCodes"`
}

type methodConfig struct {
	Name        []methodName `json:"name"`
	RetryPolicy retryPolicy  `json:"retryPolicy"`
}

// serviceConfig returns a config that balances calls over the addresses of a service. It also retries methods whose
// idempotency_level allows it, with at most four attempts and jitter.
func serviceConfig() string {
	doc := map[string]any{"loadBalancingConfig": []map[string]any{{"round_robin": map[string]any{}}}}
	if names := idempotent(protoregistry.GlobalFiles); len(names) > 0 {
		doc["methodConfig"] = []methodConfig{{Name: names, RetryPolicy: retryPolicy{
			MaxAttempts: 4, InitialBackoff: "0.1s", MaxBackoff: "1s", BackoffMultiplier: 2,
			RetryableStatusCodes: []string{"UNAVAILABLE"},
		}}}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return "{}"
	}
	return string(raw)
}

func idempotent(files *protoregistry.Files) []methodName {
	var names []methodName
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(file.Package()), "signalbox.") {
			return true
		}
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				options, ok := method.Options().(*descriptorpb.MethodOptions)
				if ok && options.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN {
					names = append(names, methodName{string(service.FullName()), string(method.Name())})
				}
			}
		}
		return true
	})
	slices.SortFunc(names, func(a, b methodName) int {
		return strings.Compare(a.Service+"/"+a.Method, b.Service+"/"+b.Method)
	})
	return names
}
