package registry

import "github.com/signalbox-dev/signalbox/internal/rewrap"

// Sealed are the columns whose values are under the keyring.
func (s *Service) Sealed() []rewrap.Column {
	return []rewrap.Column{{Table: "revision", Name: "api_key", Key: "id"}}
}
