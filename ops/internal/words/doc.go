// Package words has the words of findings and reasons: numbers, durations, command lines, and
// advice that both doctor and explain give.
package words
