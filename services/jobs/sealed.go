package jobs

import "github.com/signalbox-dev/signalbox/internal/rewrap"

// Sealed lists the columns whose values are encrypted with the keyring.
func (s *Service) Sealed() []rewrap.Column {
	return []rewrap.Column{{Table: "work", Name: "engine_key", Key: "id"}}
}
