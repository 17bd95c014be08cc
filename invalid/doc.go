// Package invalid joins the validation errors of a configuration section.
package invalid
