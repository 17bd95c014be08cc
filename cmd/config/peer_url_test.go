package config

import (
	"slices"
	"strings"
)

func doubted(l *Loaded, key string) bool {
	return slices.ContainsFunc(l.Warnings, func(w string) bool { return strings.HasPrefix(w, key+": ") })
}
