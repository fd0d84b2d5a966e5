/// The name that is most similar to `word`; `nil` if none is similar.
package func nearest(to word: String, among names: some Sequence<String>) -> String? {
    // The distance to a long word takes time, and no name is similar to it.
    guard word.utf8.count <= 64 else { return nil }
    return names.map { (name: $0, distance: distance($0, word)) }
        .filter { $0.distance <= max(1, $0.name.count / 3) }
        .min { $0.distance < $1.distance }?.name
}

/// The number of characters to insert, delete or replace to turn one word into the other (Levenshtein distance).
private func distance(_ first: String, _ second: String) -> Int {
    var row = Array(0...second.count)
    for (index, character) in first.enumerated() {
        var diagonal = row[0]
        row[0] = index + 1
        for (column, other) in second.enumerated() {
            let replaced = diagonal + (character == other ? 0 : 1)
            diagonal = row[column + 1]
            row[column + 1] = min(replaced, row[column] + 1, diagonal + 1)
        }
    }
    return row[second.count]
}
