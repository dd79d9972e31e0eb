// Package redis is a backend.
package redis
