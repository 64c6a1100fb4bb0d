package jobs

import "github.com/signalbox-dev/signalbox/platform/pg"

// Sealed lists the columns whose values are encrypted with the keyring.
func (s *Service) Sealed() []pg.SealedColumn {
	return []pg.SealedColumn{{Table: "work", Name: "engine_key", Key: "id"}}
}
