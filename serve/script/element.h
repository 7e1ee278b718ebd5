/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The elements of an array that a script returns, packed one behind the other: the kind, a number
 * (the integer, or the count of bytes), the bytes.
 */
#ifndef SERVE_ELEMENT_H
#define SERVE_ELEMENT_H

#include "key_call.h"

#define ELEMENTS_MAX 64
#define ELEMENT_HEAD_BYTES (1 + sizeof(int64_t))

/* Writes ELEMENT_HEAD_BYTES and the bytes of the element; returns their number. */
static inline size_t element_pack(char *at, const struct answer *element) {
    const bool is_bytes = element->kind == ANSWER_BYTES;
    const int64_t number = is_bytes ? (int64_t)element->bytes.bytes : element->integer;
    at[0] = (char)element->kind;
    memcpy(at + 1, &number, sizeof number);
    if (!is_bytes) return ELEMENT_HEAD_BYTES;
    if (number > 0) memcpy(at + ELEMENT_HEAD_BYTES, element->bytes.data, element->bytes.bytes);
    return ELEMENT_HEAD_BYTES + element->bytes.bytes;
}

/* Takes the first element from *rest. False: the bytes are not an element. */
static inline bool element_unpack(struct bytes *rest, struct answer *element) {
    int64_t number;
    if (rest->bytes < ELEMENT_HEAD_BYTES || (unsigned char)rest->data[0] > ANSWER_BYTES)
        return false;
    *element = (struct answer){.kind = (enum answer_kind)rest->data[0]};
    memcpy(&number, rest->data + 1, sizeof number);
    rest->data += ELEMENT_HEAD_BYTES;
    rest->bytes -= ELEMENT_HEAD_BYTES;
    if (element->kind != ANSWER_BYTES) {
        element->integer = number;
        return true;
    }
    if (number < 0 || (uint64_t)number > rest->bytes) return false;
    element->bytes = (struct bytes){rest->data, (size_t)number};
    rest->data += number;
    rest->bytes -= (size_t)number;
    return true;
}

/* The bytes of an array are as many elements as it says. */
static inline bool elements_are_whole(const struct answer *array) {
    struct bytes rest = array->bytes;
    struct answer element;
    int64_t count = 0;
    while (count <= array->integer && element_unpack(&rest, &element)) count++;
    return rest.bytes == 0 && count == array->integer;
}

#endif
