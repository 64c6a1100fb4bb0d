// Package db holds the migrations of the jobs schema. They are forward-only and additive: each release must
// run on the schema of the next one.
package db

import "embed"

// Migrations are the goose files of this service's own tables.
//
//go:embed migrations/*.sql
var Migrations embed.FS
