// Package db embeds the migrations that create the tables of the auth schema.
package db

import (
	"embed"
	"io/fs"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns a file system whose root contains the goose migrations of the auth schema.
func Migrations() (fs.FS, error) { return fs.Sub(files, "migrations") }
