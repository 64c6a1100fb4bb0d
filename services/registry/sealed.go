package registry

import "github.com/signalbox-dev/signalbox/platform/pg"

// Sealed lists the columns whose values are encrypted with the keyring.
func (s *Service) Sealed() []pg.SealedColumn {
	return []pg.SealedColumn{{Table: "revision", Name: "api_key", Key: "id"}}
}
