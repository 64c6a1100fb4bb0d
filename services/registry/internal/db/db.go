// Package db embeds the migrations that create the tables of the registry schema. It also defines the topics of
// wake-ups between replicas.
package db

import (
	"embed"
	"io/fs"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the goose migrations of this schema, at the root of the file system.
func Migrations() (fs.FS, error) { return fs.Sub(files, "migrations") }
