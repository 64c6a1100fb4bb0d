// Package restjson is the one JSON form of the API: it writes protobuf messages as the contract
// spells them and reads request bodies strictly, naming the path of every fault.
//
// Written: snake_case names in declaration order, every integer as a JSON number, an unset optional
// field as null, lists and maps never null, times as 2026-11-21T03:00:00.123456+00:00, enum values
// without their prefix in lower case (an unspecified one as null), NaN and the infinities as strings,
// and fields with the raw_json option as the JSON value they hold. The same message always gives the
// same bytes.
//
// Read: exactly these names, each once; numbers as numbers; one JSON value and nothing after it;
// valid UTF-8 without NUL; at most MaxDepth levels. A body that is not JSON yields one json_invalid
// entry at its byte offset, every other fault an entry with its path, MaxFaults of them at most.
package restjson
