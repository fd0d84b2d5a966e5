extension Array {
    /// Sorts the elements by `key`, and those with equal keys by `precedes`. Those before `start` are in order already.
    ///
    /// Sorts pairs of key and index, and then moves each element once. Exchanging large elements while sorting, and
    /// copying them out of the array, would take several times as long.
    ///
    /// - Returns: The first index at which an element may have changed.
    mutating func sort<Key: Comparable>(
        from start: Int, by key: (Element) -> Key, then precedes: (Element, Element) -> Bool
    ) -> Int {
        withUnsafeMutableBufferPointer { elements in
            func inOrder(_ left: (key: Key, index: Int), _ right: (key: Key, index: Int)) -> Bool {
                left.key != right.key ? left.key < right.key : precedes(elements[left.index], elements[right.index])
            }
            let appended = elements.indices[Swift.max(0, start - 1)...].map { (key: key(elements[$0]), index: $0) }
            if zip(appended, appended.dropFirst()).allSatisfy(inOrder) { return start }
            let sorted = elements.indices.map { (key: key(elements[$0]), index: $0) }.sorted(by: inOrder)
            var places = [Int](repeating: 0, count: sorted.count)
            for (place, element) in sorted.enumerated() { places[element.index] = place }
            for index in places.indices {
                while places[index] != index {
                    elements.swapAt(index, places[index])
                    places.swapAt(index, places[index])
                }
            }
            return 0
        }
    }
}
