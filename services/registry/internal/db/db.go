// Package db owns what every area of the registry shares about the database: the migrations of the schema, the
// topics of wake-ups between replicas, and the trace that every change leaves.
package db

import (
	"embed"
	"io/fs"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the goose migrations of this schema, at the root of the file system.
func Migrations() (fs.FS, error) { return fs.Sub(files, "migrations") }
